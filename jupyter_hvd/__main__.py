"""`python -m jupyter_hvd`: the same as `jupyter hvd`."""

import sys

if not sys.flags.safe_path and __name__ == "__main__":
    # The folder in which somebody works is no place to import from: it may hold anybody's `nbformat.py`.
    del sys.path[0]

from .cli import main

sys.exit(main())
