"""Does a conversion hold? The original and the conversion are run, and compared.

Start reading at `verification.py`; `checks.py` says what is compared, `probe.py` how it is seen.
"""

from .checks import Check
from .verification import UnconfirmedError, Verification, verify

__all__ = ["Check", "UnconfirmedError", "Verification", "verify"]
