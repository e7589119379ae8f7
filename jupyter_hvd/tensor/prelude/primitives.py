"""Elementary functions that NumPy does not have, as functions of its arrays: rows of `derivative/elementary`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..derivative.elementary import find_elementary


@dataclass(frozen=True)
class Primitive:
    """An elementary function, entry by entry, by its name in the table."""

    name: str

    def __call__(self, *arguments: Any) -> Any:
        for x in arguments:
            if hasattr(x, "tracer"):
                return x.applied(self, arguments, {})
        row = find_elementary(self.name)
        assert row is not None
        return np.vectorize(row.compute, otypes=[float])(*arguments)

    def __tensor_inline__(self, tracer: Any, arguments: Any, _named: Any) -> Any:
        return tracer.mapped(self.name, *arguments)


@dataclass(frozen=True)
class ArrayPrimitive:
    """An array-level function that `frontend/forms` builds, under a name that is not NumPy's."""

    name: str
    of_numpy: Callable[..., Any]

    def __call__(self, x: Any, *arguments: Any, **named: Any) -> Any:
        if hasattr(x, "tracer"):
            return x.applied(self, (x, *arguments), named)
        return self.of_numpy(x, *arguments, **named)

    def __tensor_inline__(self, tracer: Any, arguments: Any, named: Any) -> Any:
        return tracer.built(self.name, *arguments, **named)


#: The largest entry along axes, whose derivative is not defined.
largest = ArrayPrimitive("largest", np.max)
#: x, whose derivative is zero; and 0 of what is infinite, too.
stopped, finite = Primitive("stopped"), Primitive("finite")
sigmoid, softplus, erf, erfc = map(Primitive, ("sigmoid", "softplus", "erf", "erfc"))
xlogy, lgamma, digamma = map(Primitive, ("xlogy", "lgamma", "digamma"))
