from __future__ import annotations

import sys
from pathlib import Path

# What is beside runs as scripts, too, in ranks.
sys.path.insert(0, str(Path(__file__).parent))
