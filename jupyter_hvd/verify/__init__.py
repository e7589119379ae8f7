"""Does a conversion hold? The original and the conversion are run, and compared.

Start reading at `verification.py`; `checks.py` says what is compared, `probe.py` how it is seen.
The ranks import this package too, and nothing of the converter with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checks import Check
    from .verification import UnconfirmedError, Verification, verify

__all__ = ["Check", "UnconfirmedError", "Verification", "verify"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import verification

        return getattr(verification, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
