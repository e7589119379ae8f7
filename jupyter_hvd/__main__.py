"""`python -m jupyter_hvd`: the same as `jupyter hvd`."""

import sys

from .cli import main

sys.exit(main())
