"""docs/kernels.md is what the code prints."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_that_follows_a_function_is_current():
    # In a process of its own: the page shows JAX as it is by default.
    script = ROOT / "scripts" / "kernels_page.py"
    made = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True)
    message = "run  python scripts/kernels_page.py > docs/kernels.md"
    assert made.stdout == (ROOT / "docs" / "kernels.md").read_text(), message
