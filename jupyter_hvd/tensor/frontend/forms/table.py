"""The table of forms: functions of NumPy and JAX by name, and what builds them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...language.definition import Definition
from ...language.errors import TensorError
from ...language.terms import Apply
from ..tracers import Selected, Value, as_truth, numbers_of

Build = Callable[..., Any]  # of a tracer and the arguments

MODULES = ("numpy", "jax", "scipy")
IGNORED = ("dtype", "copy", "precision", "preferred_element_type", "optimize")


@dataclass(frozen=True)
class Form:
    """A function of NumPy: `build` takes a tracer and what the function takes. It may be a method
    of arrays, too; a maker makes arrays from numbers alone; an entrywise one computes each entry by itself.
    """

    name: str
    build: Build
    method: bool = False
    maker: bool = False
    entrywise: bool = False

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters of the form, as `inspect` reads them from its builder."""
        return inspect.signature(self.build)

    def call(self, t: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return what the form makes of a program's arguments.

        Raises:
            TensorError: it does not take these, or is asked for integers.
        """
        if self.name in REDUCING:
            arguments, named = self._by_names(t, arguments, named)
        dtype = named.get("dtype")
        named = {x: v for x, v in named.items() if x not in IGNORED}
        if (self.method or self.name in OF_ARRAYS) and arguments and t.is_several(arguments[0]):
            arguments = [t.several(arguments[0]), *arguments[1:]]
        if self.name in ON_HOST and arguments and not (arguments[1:] and self.name == "where"):
            made = t.on_host(arguments[0], self.name, *arguments[1:], **named)
            if made is not None:
                return made
        try:
            self.signature.bind(t, *arguments, **named)
        except TypeError as error:
            raise t.error(f"`{self.name}`: {error}", "docs/numpy.md lists what it takes") from error
        if self.name in LOGIC and arguments and all(numbers_of(x) == "bool" for x in arguments):
            raise t.error(
                f"`{self.name}` of conditions is logic in NumPy",
                "make numbers of them: `1.0 * p`; or combine them by `&` and `|`",
            )
        made = t.no_list(self.build(t, *arguments, **named))
        if dtype is not None:
            made = t.typed(made, dtype, self.name in WHOLE)
        if self.name in VIEWS:
            t.viewing(arguments[0], made)
        if self.name in KEEPING:
            t.like(made, arguments[0], self.name in PLACED)
        if self.name in OF_INTEGERS:
            t.of_integers_alone(made, arguments, self.name in ORDERED)
        if self.name in TRUTHS:
            as_truth(made)
        return made

    def _by_names(
        self, t: Any, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """Return the arguments after the first by NumPy's names, whose order includes an `out` array."""
        _, *names = inspect.signature(getattr(np, self.name)).parameters
        by_name = {**dict(zip(names, arguments[1:], strict=False)), **named}
        if len(arguments) > len(names) + 1 or by_name.get("out") is not None:
            raise t.error(f"`{self.name}` writes into no array here", "leave `out` out")
        return arguments[:1], {x: v for x, v in by_name.items() if x not in UNUSED}


FEW = 64  # entries up to which an array of constants is written out
#: What reduces an array, by NumPy's own order of arguments.
REDUCING = (
    *("sum", "prod", "mean", "std", "var", "max", "amax", "min", "amin", "any", "all"),
    *("cumsum", "cumprod", "argmax", "argmin", "median", "quantile", "percentile", "ptp"),
    *("nansum", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd"),
)
UNUSED = ("out", "overwrite_input")
#: What gives as many entries as data say, or how many something has: of integers and conditions that are data, before a call.
ON_HOST = ("unique", "nonzero", "flatnonzero", "argwhere", "where", "max", "amax", "min", "amin")
#: What gives a view: an array that shares its entries with the one that it is made from.
VIEWS = (
    *("transpose", "permute_dims", "swapaxes", "moveaxis", "reshape", "ravel", "squeeze"),
    *("expand_dims", "broadcast_to", "diagonal", "diag", "flip", "flipud", "fliplr", "asarray"),
    *("split", "hsplit", "vsplit", "array_split", "atleast_1d", "atleast_2d"),
    "sliding_window_view",
)
#: What takes one array, and is no method; a tuple in its place is a list of arrays.
OF_ARRAYS = (
    *("median", "quantile", "percentile", "average", "ptp", "count_nonzero", "cumprod"),
    *("nansum", "nanmean", "nanmax", "nanmin", "nanvar", "nanstd", "logsumexp"),
)
#: What gives entries of an array, or 0: conditions of conditions, whole numbers of whole numbers.
PLACED = ("roll", "repeat", "tile", "delete", "take", "rot90")
KEEPING = ("tril", "triu", "unique", *PLACED)
#: What gives entries of an array in another order, or one of them.
ORDERED = ("sort", "max", "min", "amax", "amin")
#: What gives integers of integers.
OF_INTEGERS = (
    *(
        "sum",
        "prod",
        "cumsum",
        "cumprod",
        "diff",
        "dot",
        "abs",
        "absolute",
        "negative",
        "square",
        "sign",
    ),
    *("add", "subtract", "multiply", "floor_divide", "mod", "remainder", "maximum", "minimum"),
    *("concatenate", "stack", "hstack", "vstack", "append"),
    *ORDERED,
)
#: What makes whole numbers.
WHOLE = ("zeros", "ones", "eye", "identity", "tri", "zeros_like", "ones_like", "one_hot")
#: What gives conditions.
TRUTHS = (
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "any", "all"),
    *("logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"),
    *("invert", "isclose", "allclose", "isnan", "isinf", "isfinite", "isposinf", "isneginf"),
)
#: What is logic where all its arguments are conditions.
LOGIC = (
    *("add", "subtract", "negative", "dot", "vdot", "inner", "matmul", "tensordot", "diff"),
    *("convolve", "correlate"),
)

FORMS: dict[str, Form] = {}
ATTRIBUTES: dict[str, Build] = {}


def form(*names: str, method: bool = False, maker: bool = False) -> Callable[[Build], Build]:
    """Enter a function under NumPy's names for it; under `scipy.name` where SciPy's of that name is another."""

    def enter(build: Build) -> Build:
        for name in names:
            entrywise = build.__module__.endswith(".elementwise")
            FORMS[name] = Form(name, build, method, maker, entrywise)
        return build

    return enter


def attribute(name: str) -> Callable[[Build], Build]:
    """Enter a function of an array as an attribute of arrays."""

    def enter(build: Build) -> Build:
        ATTRIBUTES[name] = build
        return build

    return enter


@dataclass(frozen=True)
class Method:
    """`x.sum`, to be called."""

    form: Form
    value: Any

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self.value, Selected):
            return tracer.form_of_selected(self.form, (self.value, *args), kwargs)
        return self.form.call(tracer, (self.value, *args), kwargs)


def build(t: Any, name: str, *arguments: Any, **named: Any) -> Any:
    """Return what the form of this name makes of the arguments."""
    return FORMS[name].build(t, *arguments, **named)


def applied(t: Any, definition: Definition, *operands: Any) -> Any:
    """Return the array that an array-level function makes of these operands."""
    made = Apply(definition, tuple(x.term for x in operands))
    return t.named(Value(t, made), definition.name)


def attribute_of(t: Any, array: Any, name: str) -> Any:
    """Return an attribute of an array, `x.T`, or a method bound to it.

    Raises:
        TensorError: arrays have none of that name here.
    """
    if name in ATTRIBUTES and not isinstance(array, Selected):
        made = ATTRIBUTES[name](t, array)
        t.viewing(array, made)
        return made
    if name in FORMS and FORMS[name].method:
        return Method(FORMS[name], array)
    raise TensorError(
        f"an array has no `.{name}` here",
        "docs/numpy.md lists what it has; or use comprehensions",
    )


def form_named(name: str) -> Form:
    """Return the form of this name; KeyError if there is none."""
    return FORMS[name]


def function_name(function: Any) -> str:
    """Return the `__name__` of a function."""
    return str(getattr(function, "__name__", function))


def function_module(function: Any) -> str:
    """Return the top-level package that a function is from."""
    module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).split(".")[0]


def form_of(function: Any) -> Form | None:
    """Return the form for a function of NumPy, SciPy or JAX; None if there is none."""
    name, module = function_name(function), function_module(function)
    owner = getattr(function, "__self__", None)
    if owner is not None and name in OF_TWO and function_module(owner) in MODULES:
        return OF_TWO[name](owner)
    if _is_another(function, name):
        return None
    if _is_of_the_normal_distribution(function):
        return FORMS.get(f"norm.{name}")
    if module in MODULES or (module == "math" and name == "prod"):
        name = ALIASES.get(name, name)
        where = str(getattr(function, "__module__", ""))  # NumPy's functions had none until NumPy 2
        if where == "jax._src.tree":  # `jax.tree.map`
            name = f"tree_{name}"
        if ".scipy." in where:  # `jax.scipy.linalg` has SciPy's ways
            module = "scipy"
        return FORMS.get(f"{module}.{name}", FORMS.get(name))
    return None


#: Of jax.lax, what means the same as NumPy's function of that name. `lax.max`, `lax.split` and others do not.
LAX = (
    *("scan", "fori_loop", "map", "cond", "while_loop", "stop_gradient", "rsqrt", "exp2"),
    *("top_k", "dot", "concatenate", "expand_dims", "squeeze", "square", "full", "broadcast_to"),
)
_OF_LAX_ALONE = ("scan", "fori_loop", "map", "cond", "while_loop")
#: Where SciPy's functions are NumPy's of that name, or have none.
SCIPY = ("scipy.special", "scipy.linalg", "scipy.integrate", "scipy.fft", "scipy.spatial.distance")


def _is_another(function: Any, name: str) -> bool:
    """Whether a function has only the name of a form: `scipy.ndimage.convolve`, `jax.lax.max`."""
    module = str(getattr(function, "__module__", None) or "")
    if module.startswith("jax") and ".lax" in module:
        return name not in LAX
    if module.startswith("jax") and ".scipy." in module:
        return not any(part in module for part in (".special", ".linalg", ".integrate", ".norm"))
    if module.startswith("scipy"):
        return not module.startswith(SCIPY) and not _is_of_the_normal_distribution(function)
    if module.startswith("numpy") and name in _OF_LAX_ALONE:  # `np.linalg.cond`
        return True
    return module.startswith(("numpy.ma", "numpy.random", "numpy.polynomial", "jax._src.random"))


def _is_of_the_normal_distribution(function: Any) -> bool:
    """Whether this is a function of `scipy.stats.norm`, NumPy's or JAX's."""
    module = str(getattr(function, "__module__", None) or "")
    owner = getattr(getattr(function, "__self__", None), "name", None)
    return module.endswith("stats.norm") or (module.startswith("scipy.stats") and owner == "norm")


def _make_outer(function: Any) -> Form:
    """Return the form of `np.subtract.outer`: every entry of one array with every entry of the other."""

    def build(t: Any, a: Any, b: Any) -> Any:
        a, b = t.whole(a), t.whole(b)
        return t.applied(function, t.subscript(a, (..., *[None] * len(t.dims(b)))), b)

    return Form(f"{function_name(function)}.outer", build)


def _make_accumulate(function: Any) -> Form | None:
    """Return the form of `np.maximum.accumulate`, of every prefix along an axis; None if the function is not associative."""

    def build(t: Any, x: Any, axis: Any = 0) -> Any:
        return t.prefixes(x, axis, lambda a, b: t.applied(function, a, b))

    name = function_name(function)
    known = name in ASSOCIATIVE
    return Form(f"{name}.accumulate", build) if known else None


def _make_reduce(function: Any) -> Form | None:
    """Return the form of `np.maximum.reduce`, along the first axis by default; None if there is none."""
    name = function_name(function)

    def build(t: Any, array: Any, axis: Any = 0, **named: Any) -> Any:
        if name in REDUCTIONS:
            return FORMS[REDUCTIONS[name]].call(t, (array,), {"axis": axis, **named})
        return t.halved(array, axis, lambda a, b: t.applied(function, a, b), **named)

    known = name in (*ASSOCIATIVE, *REDUCTIONS)
    return Form(f"{name}.reduce", build) if known else None


#: Of which a prefix may be made of two halves.
ASSOCIATIVE = ("add", "multiply", "maximum", "minimum", "fmax", "fmin", "logaddexp")
#: What reduces an array by an operation.
REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
OF_TWO = {"outer": _make_outer, "accumulate": _make_accumulate, "reduce": _make_reduce}
ALIASES = {
    "amax": "max",
    "amin": "min",
    "true_divide": "divide",
    "_where": "where",
}
