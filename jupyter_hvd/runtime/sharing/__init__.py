"""Share the training of one process among N ranks, with the same result.

Every rank runs the whole program on whole batches. Only the outermost call of a layer or model is shared: each rank
computes its own rows, and all ranks get the rows of all. Importing this package loads no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .start import start_shared


def share(function: Callable[..., Any]) -> Callable[..., Any]:
    """Share the rows of a function's tensors among the ranks, where a program runs with `--batch global`.

    Layers and models are shared without it. The function must compute each row by itself; the first batch is computed
    in both ways and compared, and a function that fails runs unsharded on every rank. Elsewhere, as in one process, it is
    returned as it is.

    Args:
        function: takes tensors whose first dimension counts rows, and returns such tensors.
    """
    from .context import sharing

    if not sharing.active:
        return function
    from .calls import share_function

    return share_function(function)


def rank_zero(value: Any) -> Any:
    """Return rank 0's value on all ranks if the program runs with `--batch global`; else the value itself.

    Collective: all ranks must call it, at the same line of the main thread. Of an iterator only rank 0's is advanced; all
    ranks get its elements, its end, and the error that it raises.

    Args:
        value: what can be pickled, or an iterator over such values.
    """
    from .context import sharing

    if not sharing.active:
        return value
    from . import rank_zero_data

    return rank_zero_data.rank_zero(value)


__all__ = ["rank_zero", "share", "start_shared"]
