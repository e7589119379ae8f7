"""Tensor functions as methods: `model.loss(x)` is `Model.loss(model, x)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .called_function import CalledFunction

#: What gives another function of the same parameters.
DERIVING = frozenset(("grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "sharded"))
#: What takes the arguments of a call.
CALLING = frozenset(("cost", "debug", "interpret", "plan", "profile", "specialised", "tune"))


class TensorMethod:
    """A tensor function whose first argument is an object. Its derivatives are methods too."""

    def __init__(self, function: CalledFunction, owner: object) -> None:
        self.__func__, self.__self__ = function, owner

    def __repr__(self) -> str:
        return f"<method {self.__func__!r} of {self.__self__!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.__func__, name)
        if name in CALLING:
            return functools.partial(found, self.__self__)
        return functools.partial(self._derived, found) if name in DERIVING else found

    def _derived(self, derive: Callable[..., CalledFunction], *args: Any, **options: Any) -> TensorMethod:  # fmt: skip
        """Return a derivative of the function as a method of the same object."""
        return TensorMethod(derive(*args, **options), self.__self__)

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        """What a call from another tensor function is, to its tracer."""
        return self.__func__.__tensor_inline__(tracer, (self.__self__, *args), kwargs)
