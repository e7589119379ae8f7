"""Distribute, differentiate and inspect training code in notebooks.

Importing this package loads neither TensorFlow nor JAX nor Horovod, and not
LibCST before something is converted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .convert import (
        Conversion,
        NotebookConversion,
        Options,
        convert_notebook,
        convert_source,
        explain_source,
    )

__version__ = "0.1.0"
__all__ = [
    "Conversion",
    "NotebookConversion",
    "Options",
    "convert_notebook",
    "convert_source",
    "explain_source",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import convert

        return getattr(convert, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def load_ipython_extension(shell: Any) -> None:
    """Register the magics, and let the kernel share GPU memory with ranks; called by `%load_ext`."""
    from .magics import distribute, tensor
    from .notebook import gpu_memory

    gpu_memory.let_kernel_share()
    distribute.load_magics(shell)
    tensor.load_magics(shell)
