"""Calls: of primitives, of Python's own functions, of other tensor functions."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...derivative.primitives import NUMPY
from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.pairs import Form, Laid, field_names, to_pairs
from ...language.predicates import fresh, reserve_generated_names
from ...language.predicates import substitute as at_values
from ...language.terms import (
    At,
    Binder,
    Const,
    Gen,
    Let,
    Pair,
    Term,
    Var,
    components,
    lets,
    substitute,
)
from ...language.types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    Layout,
    Parameter,
    Relation,
    TupleSet,
    array,
    dimensions,
    size_names,
)
from .. import forms
from ..captured_data import (
    ARGUMENTS,
    ArrayMet,
    Computed,
    EndsDescendError,
    FromStart,
    OnHost,
    OutsideMethod,
    OutsideObject,
    Record,
    Reference,
    Surroundings,
    has_data,
    is_data,
    is_method,
    is_object,
    parts_of,
)
from ..helpers import helper_of
from ..signature import has_no_counterpart, observed
from ..tracers import (
    Data,
    Index,
    Nature,
    Selected,
    UnreadableValue,
    Value,
    affine_of,
    as_truth,
    is_index_array,
    is_tuple,
    kind,
    lists_of,
    numbers_of,
    set_help,
    tuples_of,
)
from .arrays import nature_of, range_of
from .loops import Iteration, Loop
from .packing import is_numpy_scalar, is_rounded
from .recurrences import LONG, Appended
from .selections import Selections
from .subscripts import Changed

if TYPE_CHECKING:
    from ..rewrite import Rewritten
    from .trace_result import Lookup, Traced


class Tracer(Selections):
    """What rewritten code calls. Every method takes first the number of a place in the source."""

    def call(self, k: int, function: Any, /, *arguments: Any, **named_arguments: Any) -> Any:
        """Return `function(*arguments)`, for a form, a primitive, a Python function or another tensor function.

        Called by rewritten code.

        Args:
            k: the number of the position in the source.

        Raises:
            TensorError: the function is none of these, or does not take the arguments.
        """
        self.at(k)
        return self.applied(function, *arguments, **named_arguments)

    def applied(self, function: Any, /, *arguments: Any, **named_arguments: Any) -> Any:
        """Return `function(*arguments)` as `call` does, at the current source position."""
        if getattr(function, "__self__", None) is self:  # which `desugaring` writes
            return function(*arguments)
        if function is functools.partial:
            first, *rest = arguments
            return functools.partial(first, *rest, **named_arguments)
        if isinstance(function, functools.partial):
            given: tuple[Any, ...] = (*function.args, *arguments)
            return self.applied(function.func, *given, **{**function.keywords, **named_arguments})
        if not isinstance(function, Value) and hasattr(function, "__tensor_inline__"):
            return function.__tensor_inline__(self, arguments, named_arguments)
        if hasattr(getattr(function, "__self__", None), "__tensor_inline__"):
            return function(*arguments, **named_arguments)  # `f.grad("w")`
        if getattr(function, "__globals__", {}).get("__tensor__") is self:
            return self._call_inner_function(function, arguments, named_arguments)
        if any(isinstance(x, Selected) for x in (*arguments, *named_arguments.values())):
            return self._apply_to_selected(function, arguments, named_arguments)
        handler = _BUILTINS.get(function) if isinstance(function, Hashable) else None
        if handler is None and isinstance(getattr(function, "__self__", None), dict):
            return list(function(*arguments))
        if handler is not None:
            return handler(self, *arguments, **named_arguments)
        form = forms.form_of(function)
        if form is not None and (
            form.maker
            or any(isinstance(x, tuple | list) for x in arguments)
            or not self._are_plain((*arguments, *named_arguments.values()))
        ):
            integer = None if named_arguments else self.of_integers(form.name, arguments)
            return form.call(self, arguments, named_arguments) if integer is None else integer
        if isinstance(function, type) and (fields := field_names(function)):
            return self._make_record(function, fields, arguments, named_arguments)
        if isinstance(function, MethodType) and isinstance(function.__self__, type):
            return self.applied(function.__func__, function.__self__, *arguments, **named_arguments)
        layout = function.layout if is_tuple(function) else function
        if isinstance(layout, Laid):
            method = self.method_of(function, layout.form, "__call__")
            return self.applied(method, *arguments, **named_arguments)
        helper = helper_of(function)
        if helper is not None:
            return helper.__tensor_inline__(self, arguments, named_arguments)
        return self._call_elementwise(function, arguments, **named_arguments)

    def _apply_to_selected(self, function: Any, arguments: Any, named: dict[str, Any]) -> Any:
        """Return a function of entries that a condition chooses."""
        if function is builtins.len:
            return self.how_many(arguments[0])
        if function in (builtins.list, builtins.tuple):
            return arguments[0]
        if function in (builtins.max, builtins.min) and len(arguments) == 1 and not named:
            return self.of_selected(function.__name__, arguments, {})
        if function in _ITERATING:
            return _BUILTINS[function](self, *arguments, **named)
        if function is builtins.sum and len(arguments) == 1 and not named:
            return self.of_selected("sum", arguments, {"axis": 0})
        form = forms.form_of(function)
        if form is not None:
            return self.form_of_selected(form, arguments, named)
        helper = helper_of(function)
        if helper is not None:
            return helper.__tensor_inline__(self, arguments, named)
        return self.selected(lambda *xs: self.applied(function, *xs, **named), True, *arguments)

    def form_of_selected(self, form: forms.Form, arguments: Any, named: dict[str, Any]) -> Any:
        """Return a NumPy function of entries that a condition chooses."""
        if form.name in ("array", "asarray"):
            return arguments[0]
        if not form.entrywise:
            return self.of_selected(form.name, arguments, named)
        return self.selected(lambda *xs: form.call(self, xs, named), True, *arguments)

    def _make_record(
        self, class_: type, fields: tuple[str, ...], args: tuple[Any, ...], named: dict[str, Any]
    ) -> Value:
        """Return an instance of a named tuple or dataclass that the program creates."""
        try:
            bound = inspect.signature(class_).bind(*args, **named)
        except TypeError as error:
            raise self.error(f"`{class_.__name__}`: {error}") from error
        bound.apply_defaults()
        parts = [self._structure(bound.arguments[name]) for name in fields]
        return Value(self, *self.pack(Laid(parts, Form(fields, class_))))

    def replaced(self, value: Any, /, **changes: Any) -> Value:
        """Return a record with changed parts: `dataclasses.replace(p, w=…)`, `state._replace(h=…)`."""
        layout = value.layout if isinstance(value, Value) else None
        if not isinstance(layout, Laid) or not set(changes) <= set(layout.form.names):
            raise self.error(f"{kind(value)} has no such parts", "name those that it has")
        parts = dict(zip(layout.form.names, self.parts(value), strict=True))
        return Value(self, *self.pack(Laid({**parts, **changes}.values(), layout.form)))

    def typed(self, value: Any, dtype: Any, exact: bool = False) -> Any:
        """Return a value as an array of a NumPy type; `exact` if it is of integers whatever the type. Raises TensorError if
        that would round.
        """
        if dtype is not None and has_no_counterpart(dtype):
            message = f"`{np.dtype(dtype)}` is a type that JAX does not have"
            raise self.error(message, "leave the type out, or write `float`")
        name = str(getattr(dtype, "__name__", dtype))
        if name.startswith(("str", "object", "bytes", "datetime")):
            raise self.error(f"`{name}` is not a type of numbers", "leave it out")
        if name.startswith("bool"):
            return as_truth(value if exact or numbers_of(value) == "bool" else self._nonzero(value))
        if name.startswith(("int", "uint")) and (exact or numbers_of(value)):
            within = (Affine.of(0), Affine.of(2)) if exact else value.nature.within
            return value.of_nature(Nature(numbers="int", within=within))
        if name.startswith("int"):
            value = self.whole(value)
            rounded = is_rounded(value.term)
            return self.counted(value if rounded else forms.build(self, "trunc", value))
        if dtype is not None and name.startswith(("uint", "complex")):
            raise self.error("numbers are real here", "leave the type out; round with `np.floor`")
        return value.of_nature(replace(value.nature, numbers="", within=None)) if dtype else value

    def whole_number(self, value: Any) -> Any:
        """Return `int(x)`: an index unchanged."""
        return value if self.cases_of(value) is not None else self.typed(self.whole(value), int)

    def _nonzero(self, value: Any) -> Any:
        """Return the condition `value != 0`."""
        return self._compare("!=", value, 0)

    def built(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Return what the form of this name makes of the arguments."""
        return forms.build(self, name, *arguments, **named)

    def prefixes(self, value: Any, axis: Any, combine: Callable[[Any, Any], Any]) -> Any:
        """Return what an associative operation makes of each prefix along an axis."""
        return forms.prefixes(self, value, axis, combine)

    def halved(
        self, value: Any, axis: Any, combine: Callable[[Any, Any], Any], keepdims: bool = False
    ) -> Any:
        """Return an array with axes reduced by an associative operation, half of the entries at a time."""
        return forms.halved(self, value, axis, keepdims, combine)

    def mapped(self, name: str, *values: Any) -> Value:
        """Return a primitive, entry by entry."""
        return self.spread(values, lambda *xs: self.function(name, *xs))

    def whole(self, value: Any) -> Value:
        """Return a value of any kind as an array or a scalar; a list of arrays as one array."""
        value = self._structure(value)
        if isinstance(value, list) or (isinstance(value, tuple) and len(value) == 1):
            return cast("Value", forms.build(self, "stack", value))
        return super().whole(value)

    def several(self, values: Any) -> list[Any]:
        """Return the arrays of a list or tuple, or the rows of an array."""
        values = self._structure(values)
        if isinstance(values, tuple | list | dict):
            return list(values)
        array = self.once(self.whole(values))
        count = self.number(self.dims(array)[0])
        return [self._entry(array, j) for j in range(count)]

    def is_several(self, value: Any) -> bool:
        """Whether a value is a tuple of several, and no record."""
        parts = self._structure(value)
        return isinstance(parts, tuple) and not getattr(parts, "form", None)

    def viewing(self, array: Any, made: Any) -> None:
        """Mark what is made of an array, or several parts of it, as sharing its entries."""
        for one in made if isinstance(made, tuple | list) else [made]:
            if isinstance(one, Value) and one is not array and isinstance(array, Value):
                one.of_nature(
                    Nature(0, numbers_of(array), self.memory.of(array), array.nature.within)
                )

    def no_list(self, value: Any) -> Any:
        """Return a value without the mark that it is a Python list."""
        if not lists_of(value) or not isinstance(value, Value) or value.data is not None:
            return value
        nature = replace(value.nature, lists=0)
        return Value(self, value.term, value.layout).of_nature(nature)

    def of_numbers(self, value: Value, numbers: str) -> Value:
        """Mark an array's numbers as being of this NumPy type."""
        return value.of_nature(replace(value.nature, numbers=numbers))

    def like(self, made: Value, array: Any, within: bool) -> None:
        """Copy what NumPy knows of an array's numbers, and their range if `within`, to what is made of them."""
        range_ = range_of(array) if within else None
        made.of_nature(replace(made.nature, numbers=numbers_of(array), within=range_))

    def of_integers_alone(self, made: Any, values: Sequence[Any], ordered: bool) -> None:
        """Mark what is made only of integers as integers; within the same range if it is `ordered`."""
        flat = [
            x for value in values for x in (value if isinstance(value, list | tuple) else [value])
        ]
        if not isinstance(made, Value) or made.nature.numbers or not flat:
            return
        if all(numbers_of(value) == "int" for value in flat):
            within = range_of(flat[0]) if ordered else None
            made.of_nature(replace(made.nature, numbers="int", within=within))

    def counted(self, value: Value) -> Value:
        """Mark an array as one of integers."""
        return value.of_nature(Nature(numbers="int", within=value.nature.within))

    def size_of(self, value: Any) -> Affine:
        """Return a size that is given as a number, an index or an array's shape."""
        return self.affine(self._as_size(value), "a size")

    def shape_of(self, shape: Any) -> list[Affine]:
        """Return the sizes of a shape: one size, or several in a list or tuple."""
        shape = self.listed(shape)
        return [self.size_of(n) for n in (shape if isinstance(shape, tuple | list) else (shape,))]

    def as_sizes(self, values: Sequence[Any]) -> list[Affine] | None:
        """Return integers and sizes as affine expressions; None if one is something else."""
        values = [self._as_size(value) for value in values]
        if any(affine_of(x) is None for x in values):
            return None
        return [self.size_of(x) for x in values]

    def entry_around(self, array: Value, a: Affine, size: Affine) -> Any:
        """Return `array[a % size]`."""
        place = self.binary(self.here, "%", Index(self, a), Index(self, size))
        return self._entry(array, place)

    def scalar_of(self, size: Affine) -> Any:
        """Return a size as a number to compute with."""
        return size.constant if size.is_constant else Value(self, Const(size))

    def ramp(self, a: Affine) -> Value:
        """Return an index as a number."""
        return Value(self, Const(a if a.terms else a.constant))

    def copied(self, value: Value) -> Value:
        """Return an array under a name of its own, so that one may be changed in place without the other."""
        if value.variable and isinstance(value.type, Array):
            bound = self.name(value.variable)
            self.scopes[-1].bindings.append((bound, value.term))
            return Value(self, Var(bound, value.type), value.layout)
        if value.nature.shares:
            apart = replace(value.nature, shares=frozenset())
            return Value(self, value.term, value.layout).of_nature(apart)
        return value

    def changeable(self, value: Any) -> Any:
        """Return JAX's `x.at`."""
        return Changed(self.whole(value))

    def _are_plain(self, values: Any) -> bool:
        """Whether all values are Python numbers, or tuples of such."""
        if isinstance(values, tuple | list):
            return all(map(self._are_plain, values))
        return isinstance(values, int | float | Fraction | str) or is_numpy_scalar(values)

    def _call_inner_function(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function or lambda that is defined inside the traced function."""
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise self.error(f"`{function.__name__}`: {error}") from error
        place, here = self.place, self.here
        made = {x: self._bind(x, value) for x, value in bound.arguments.items()}
        bound.arguments.update(made)
        value = function(*bound.args, **bound.kwargs)
        self.place, self.here = place, here
        return value

    def _call_elementwise(
        self, function: Any, arguments: tuple[Any, ...], **named_arguments: Any
    ) -> Any:
        """Call an elementary function of NumPy or `math` on numbers or arrays; functions of constants run in Python."""
        name = forms.function_name(function)
        f = NUMPY.get(name)
        if named_arguments and f:
            raise self.error(f"`{name}` takes no keyword arguments here", "leave them out")
        if any(map(self.is_array, arguments)) and forms.function_module(function) != "math":
            return self.spread(arguments, lambda *xs: self._call_elementwise(function, xs))
        plain = int | float | Fraction
        module = forms.function_module(function)
        owner = getattr(function, "__self__", None)
        same = owner is None or isinstance(owner, ModuleType | str | list | tuple)
        constant = all(isinstance(a, plain) for a in arguments)
        if constant and not same:
            raise self.error(
                f"`{name}` may give something else at each call",
                "call it outside, and pass the result",
            )
        if constant and not named_arguments and module in ("math", "numpy", "builtins"):
            exact = module != "numpy"  # which takes no fractions, as `1 / n` of a number n is
            given = (x if exact or not isinstance(x, Fraction) else float(x) for x in arguments)
            return self._lift_constant(function(*given))
        if module not in _MODULES or f is None:
            help_ = (
                "write it out with comprehensions and `sum`; docs/numpy.md lists what there is"
                if module in _MODULES
                else "use a function of `math` or NumPy, or one of your own; or compute it outside and pass it"
            )
            raise self.error(f"`{name}` is not in the tensor language", help_)
        if len(arguments) != f.arity:
            raise self.error(f"`{name}` takes {f.arity} argument{'s' * (f.arity > 1)} here")
        return self.function(f.name, *arguments)

    def _lift_constant(self, value: Any) -> Any:
        """Return NumPy's result for constants, `np.hanning(5)`, with a short array written out as a list."""
        if isinstance(value, tuple):
            return tuple(map(self._lift_constant, value))
        if getattr(value, "ndim", 0) and value.dtype.kind in "fiu" and 0 < value.size <= forms.FEW:
            made = self.no_list(self._array_of_numbers(value.tolist()))
            if value.dtype.kind == "f":
                return made
            return self.ranging(made, Affine.of(int(value.min())), Affine.of(int(value.max()) + 1))
        return value

    def constants(self, value: Any, subject: str) -> Any:
        """Return constants as literal arrays.

        Args:
            subject: names them in the error if they are too long.
        """
        made = self._lift_constant(tuple(value) if isinstance(value, list) else value)
        if any(not isinstance(x, Value) for x in (made if isinstance(made, tuple) else (made,))):
            raise self.error(
                f"{subject} of more than {forms.FEW} entries, or none", "pass it as an argument"
            )
        return made

    def _array_of_numbers(self, value: Any) -> Any:
        """Return nested lists of numbers as an array."""
        if isinstance(value, list):
            return forms.build(self, "astype", [self._array_of_numbers(part) for part in value])
        return value

    def function(self, name: str, *arguments: Any) -> Value:
        """Return a primitive of scalars."""
        return self.primitive(name, *(self.scalar(a, f"`{name}`") for a in arguments))

    # Whole arrays

    def side_by_side(self, maker: Any, parts: tuple[Any, ...]) -> Any:
        """Return `np.r_[…]` or `np.c_[…]`: arrays one after the other, or as columns."""
        if any(isinstance(place, slice | str) for place in parts):
            raise self.error("ranges in these brackets", "write `np.arange`, `np.linspace`")
        name = "hstack" if type(maker).__name__ == "RClass" else "column_stack"
        if name == "hstack" and any(len(self.dims(self.whole(p))) > 1 for p in parts):
            name = "vstack"
        return self.no_list(forms.build(self, name, list(parts)))

    def grid(self, sparse: bool, ranges: tuple[Any, ...]) -> Any:
        """Return `np.mgrid[…]`, or `np.ogrid[…]` if sparse."""
        return forms.grid(self, ranges if len(ranges) > 1 else ranges[0], sparse)

    def joined_lists(self, left: Any, right: Any) -> Any:
        """Return the concatenation of two lists."""
        first, second = (self._entries(self._structure(side)) for side in (left, right))
        if first is not None and second is not None:
            return self.written_out([*first, *second])
        made = forms.build(self, "concatenate", [left, right])
        return made.of_nature(replace(nature_of([left, right]), lists=lists_of(left)))

    def repeated_list(self, value: Any, times: Any) -> Any:
        """Return a list repeated several times."""
        entries = self._entries(value)
        if entries is not None and isinstance(times, int):
            return self.written_out(entries * times)
        if entries is not None and len(entries) == 1:
            entry = self.once(self.whole(entries[0]), "entry")
            n = self.size_of(times)
            return Value(self, Gen(self.name("i"), n, entry.term)).of_nature(
                Nature(lists_of(value))
            )
        made = forms.build(self, "tile", value, self.number(self.size_of(times)))
        return made.of_nature(replace(nature_of([value]), lists=lists_of(value)))

    def in_order_of_size(self, values: Any, descending: Any = False) -> Any:
        """Return the sorted values, as a list if they are one."""
        lists = lists_of(values) or not self.is_array(values)
        values = self.listed_from(values)
        values = list(values) if isinstance(values, dict) else values
        if isinstance(values, tuple | list) and self._are_plain(values):
            return sorted(values, reverse=bool(descending))
        made = forms.form_named("sort").call(self, (values,), {"descending": bool(descending)})
        made = self.counted(made) if numbers_of(values) == "int" else made
        return made.of_nature(replace(made.nature, lists=1)) if lists else made

    def sorted_list(self, values: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
        """Return `sorted(values)`, a list."""
        if key is not None:
            return self._sorted_by(values, key, reverse)
        if (tuples := tuples_of(values)) is not None and not reverse:
            return self.table_of(tuples)
        if isinstance(values, set | frozenset):
            return self._members(sorted(values, reverse=bool(reverse)))
        made = self.in_order_of_size(values, reverse)
        return made.of_nature(replace(made.nature, lists=1)) if isinstance(made, Value) else made

    def _with_keys(self, values: Any, key: Any) -> tuple[Value, Value]:
        """Return the items of an array or `range` as an array, and what a function makes of each."""
        over = self.iteration(values)
        if over.fixed is not None:
            over = self.iteration(self.whole(self.written_out([*over.fixed])))
        array = self.generate(self.here, "item", over, lambda item: item)
        keys = self.generate(self.here, "item", over, lambda item: self.applied(key, item))
        if not isinstance(keys.type, Array) or keys.type.element != REAL:
            raise self.error("a key that is not one number", "sort by one after the other")
        return self.once(array, "items"), self.once(keys, "keys")

    def _sorted_by(self, values: Any, key: Any, reverse: Any) -> Any:
        """Return `sorted(values, key=key)`. Equal items keep their order, in reverse, too."""
        fixed = values if isinstance(values, list | tuple) else getattr(values, "written", None)
        each = [self.applied(key, item) for item in fixed or ()]
        if fixed is not None and self._are_plain(each):
            order = sorted(range(len(each)), key=each.__getitem__, reverse=bool(reverse))
            made = [fixed[j] for j in order]
            return self.written_out(made) if isinstance(values, Value) else made
        array, keys = self._with_keys(values, key)
        order = forms.build(self, "argsort", self.negative(keys) if reverse else keys)
        made = self.subscript(array, (order,))
        return made.of_nature(replace(nature_of([array]), lists=1))

    def rows_in_a_row(self, array: Value, axes: int) -> Value:
        """Return an array with its first `axes + 1` axes joined into one."""
        inner = self.dims(array)[axes + 1 :]
        shape = (-1, *(Index(self, n) for n in inner))
        made = forms.build(self, "reshape", array, *shape)
        return cast("Value", made.of_nature(array.nature))

    @staticmethod
    def _entries(value: Any) -> list[Any] | None:
        """Return the entries of a literal list; None for an array."""
        return value.written if isinstance(value, Value) else list(value)

    def structured(self, value: Value) -> Any:
        """Return a tuple's parts in the list, dictionary or tuple that the user knows."""
        parts, layout = self.parts(value), value.layout
        if isinstance(layout, Laid) and layout.form.make is dict:
            return dict(zip(layout.form.names, parts, strict=True))
        if isinstance(layout, Laid) and layout.form.make is list:
            return parts
        return Laid(parts, layout.form) if isinstance(layout, Laid) else tuple(parts)

    def _structure(self, value: Any) -> Any:
        """Return a tuple of the program as the container that the user knows; other values unchanged."""
        if is_tuple(value):
            return self.structured(value)
        return value

    def attribute(self, value: Any, name: str) -> Any:
        """Return an attribute or method of a value: `x.T`, `x.sum`, `params.w`."""
        if is_tuple(value):
            layout = value.layout
            if isinstance(layout, Laid) and layout.form.make is dict and name in DICT:
                return getattr(self.structured(value), name)
            if (
                isinstance(layout, Laid)
                and name in ("_replace", *layout.form.names)
                and layout.form.make is not dict
            ):
                if name == "_replace":
                    return functools.partial(dataclasses.replace, value)
                return self.parts(value)[layout.form.names.index(name)]
            if isinstance(layout, Laid):
                return self.method_of(value, layout.form, name)
            raise self.error(f"a tuple has no `.{name}` here", "take its parts: `t[0]`, `a, b = t`")
        if isinstance(value, Selected):
            if name == "size":
                return self.how_many_entries(value)
            if name in ("shape", "ndim", "T"):
                raise self.error(
                    "entries that data choose have no shape", "count them: `np.sum(p)`"
                )
            return forms.attribute_of(self, value, name)
        if (tuples := tuples_of(value)) is not None:
            raise TensorError(f"`{tuples.name}` has no `.{name}`", set_help(tuples.name))
        return forms.attribute_of(self, value, name)

    def method_of(self, value: Any, form: Form, name: str) -> Any:
        """Return a method or property of a dataclass or named tuple."""
        kind_ = form.make.__name__
        member = inspect.getattr_static(form.make, name, None) if form.names else None
        if isinstance(member, property) and member.fget is not None:
            self.methods[member.fget] = None
            return self.applied(member.fget, value)
        if isinstance(member, FunctionType):
            self.methods[member] = None
            return functools.partial(member, value)
        if isinstance(member, classmethod | staticmethod):
            self.methods[member.__func__] = None
            return getattr(form.make, name)
        parts = ", ".join(f"`{x}`" for x in form.names)
        raise self.error(
            f"`{kind_}` has no `.{name}` here",
            f"it has {parts or 'parts by their position, `t[0]`'}",
        )

    def pack_container(self, value: dict[str, Any] | list[Any]) -> tuple[Term, Layout]:
        """Return a dictionary or list as nested pairs, with the layout that restores it."""
        if isinstance(value, dict):
            if not value or not all(isinstance(key, str) for key in value):
                raise self.error("a dictionary's keys are strings, one or more", "return a tuple")
            return self.pack(Laid(value.values(), Form(tuple(value), dict)))
        if not value:
            raise self.error("an empty list has no type", "use `[0 for i in range(n)]`")
        made = self.written_out(value)
        if isinstance(made, list):
            return self.pack(Laid(made, Form((), list)))
        return self.pack(made)

    def length(self, value: Any) -> Any:
        """Return `len(x)`: a number of parts, or the size of the first axis as an index expression."""
        value = self._structure(value)
        if isinstance(value, tuple | list | dict | set | frozenset):
            return len(value)
        if (tuples := tuples_of(value)) is not None:
            value = self.table_of(tuples)
        if (list_ := self._growing(value)) is not None:
            list_.is_measured = True
        if isinstance(value, Value) and isinstance(value.type, Array):
            return Index(self, value.type.size)
        raise self.error(f"{kind(value)} has no length", "only arrays have")

    def extreme(self, name: str, values: tuple[Any, ...], key: Any = None) -> Any:
        """Return `max(a, b, …)` or `min(a, b, …)` of scalars, or the first with the largest or smallest key."""
        if key is not None:
            items = values[0] if len(values) == 1 else self.written_out([*values])
            array, keys = self._with_keys(items, key)
            made = self.subscript(array, (forms.build(self, f"arg{name[:3]}", keys),))
            return made.of_nature(nature_of([array]))
        if len(values) == 1 and isinstance(values[0], list | tuple) and not values[0]:
            raise self.error("the largest or smallest of nothing has no value", "give it an entry")
        if all(isinstance(value, int | float) for value in values):
            return max(values) if name == "maximum" else min(values)
        if len(values) == 1:
            form = forms.form_named({"maximum": "max", "minimum": "min"}[name])
            return form.call(self, values, {})
        integer = self.extreme_integer(name, values)
        if integer is not None:
            return integer
        made = functools.reduce(lambda a, b: self.function(name, a, b), values)
        self.of_integers_alone(made, values, ordered=False)
        return made

    def absolute(self, value: Any) -> Any:
        """Return `abs(x)` of any value."""
        if isinstance(value, int | float):
            return abs(value)
        if self.cases_of(value) is not None:
            return self.absolute_integer(value)
        return forms.form_named("abs").call(self, (value,), {})

    def of_integers(self, name: str, values: Sequence[Any]) -> Any:
        """Return `np.maximum`, `np.minimum`, `np.clip` or `np.abs` of indices and sizes; None for other functions or values."""
        if any(self.cases_of(value) is None for value in values):
            return None
        match name, values:
            case "maximum" | "minimum", (_, _):
                return self.extreme_integer(name, values)
            case "clip", (value, low, high):
                return self.extreme_integer(
                    "minimum", (self.extreme_integer("maximum", (value, low)), high)
                )
            case "abs", (value,):
                return self.absolute_integer(value)
        return None

    # What comes from outside

    def _argument_outside(self, reference: Reference, arguments: dict[str, Any]) -> Any:
        """Return the argument for an array from outside, in a call of a derivative."""
        argument = arguments.get(reference.name) if reference.surroundings is None else None
        if is_index_array(argument):
            return self.whole(argument)
        return self.from_outside(reference, reference.value(arguments))

    def count_before_call(self, value: Value) -> Affine | None:
        """Return a size for an integer that scalars and sizes of the arguments determine before a call; None for other values."""
        if numbers_of(value) != "int" or value.type != REAL:
            return None
        term = self._inline_names(value.unchecked)
        read = [p for p in self.parameters if p.name in term.variables]
        names = term.names | term.variables
        sized = [p for p in self.parameters if size_names(p.type) & names]
        of_sizes = {
            reserve_generated_names(p.name) for p in self.parameters if isinstance(p.type, Integer)
        }
        known = frozenset[str]().union(*(size_names(p.type) for p in self.parameters), of_sizes)
        scalars = {p.name for p in read if p.type == REAL}
        if term.variables != scalars or not term.names - term.variables <= known:
            return None
        integers = [
            p
            for p in self.parameters
            if reserve_generated_names(p.name) in names and isinstance(p.type, Integer)
        ]
        given = tuple(dict.fromkeys([*read, *sized, *integers]))
        if any(p.name not in self.argument_values for p in given):
            return None
        reference = Reference(None, ARGUMENTS).entry(Computed(term, given))
        made = self._array_from_outside(reference, reference.value(self.argument_values))
        return affine_of(made)

    def _inline_names(self, term: Term) -> Term:
        """Return a term with the names bound around it replaced by what they mean."""
        for scope in reversed(self.scopes):
            for name, bound in reversed(scope.bindings):
                if name in term.variables:
                    term = substitute(term, {name: bound})
        return term

    def counting_from_start(self, relation: str, offset: Affine, size: Affine) -> str | None:
        """Return the name of a copy of an index array whose negative entries count from the start; None if its sizes are
        unknown before a call.
        """
        axes = [(name, self._find_axis(name)) for name in sorted(size.names)]
        if not offset.is_constant or any(axis is None for _, axis in axes):
            return None
        size = size.substitute({name: Affine.of(str(k)) for k, (name, _) in enumerate(axes)})
        found = tuple(axis for _, axis in axes if axis is not None)
        step = FromStart(self._reference_of_parameter(relation), offset.constant, size, found)
        name = self._name_outside(reference := Reference(None, ARGUMENTS).entry(step))
        if name not in self.arguments:
            raise ArrayMet(reference, Parameter(name, self.arguments[relation].data.type, None))
        self.counting_up.add(name)
        return name

    def _find_axis(self, size: str) -> tuple[Reference, int | None] | None:
        """Return the parameter and the axis whose size this is, or the integer parameter that it is; None if there is none."""
        for name, type_, _ in self.parameters:
            own = self._reference_of_parameter(name)
            if isinstance(type_, Integer) and reserve_generated_names(name) == size:
                return own, None
            dims = type_.dims if isinstance(type_, Relation | IndexArray) else ()
            dims = dimensions(type_) if isinstance(type_, Array) else dims
            if (axis := next((k for k, n in enumerate(dims) if n.name == size), None)) is not None:
                return own, axis
        return None

    def is_tested(self, relation: str) -> bool:
        """Whether a condition on data around tests the entries of an index array."""
        name = self.outside.get(self._reference_of_parameter(relation).as_floats)
        if name is None:
            return False
        return any(name in self._inline_names(mask().unchecked).variables for mask in self.holding)

    def on_host(self, array: Any, function: str, *given: Any, **named: Any) -> Any:
        """Return what a NumPy function makes of integers or conditions that are data, computed before each call; None if it
        cannot be.

        The number of entries of the result may be data, too.
        """
        plain = all(x is None or isinstance(x, int | str) for x in (*given, *named.values()))
        data = array.data if isinstance(array, Value) else None
        if data is None or data.steps is None or not plain:
            return None
        if isinstance(data.type, TupleSet) or (
            isinstance(data.type, Relation) and function in ("max", "min")
        ):
            return None
        return self._compute_on_host(data, OnHost(function, given, tuple(named.items())))

    def segment_ids(self, ends: str) -> Data | None:
        """Return the segment of each position, from the ends of segments; None if these do not ascend."""
        if not self.ends_ascend:
            return None
        try:
            made = self._compute_on_host(self.arguments[ends].data, OnHost("segments"))
            return cast("Data", made.data)
        except EndsDescendError:
            return None

    def table_of(self, tuples: Data) -> Value:
        """Return the tuples of a set, in order, as the rows of an array."""
        return cast("Value", self._compute_on_host(tuples, OnHost("sorted")))

    def _compute_on_host(self, data: Data, step: OnHost) -> Any:
        """Return what a step makes of data before a call, as a parameter."""
        assert data.steps is not None
        reference = self._reference_of_parameter(data.name)
        for one in (*data.steps, step):
            reference = reference.entry(one)
        if reference.surroundings is None and reference.name not in self.argument_values:
            raise self.error(
                f"how many entries `{step}` gives is data", "call the function once, with the data"
            )
        return self._bring_from_host(reference, reference.value(self.argument_values))

    def _bring_from_host(self, reference: Reference, value: Any) -> Any:
        """Return a result of a host computation as a parameter; each part of a tuple."""
        if isinstance(value, tuple):
            return tuple(self._bring_from_host(reference.entry(k), x) for k, x in enumerate(value))
        return self._array_from_outside(reference, value)

    def _reference_of_parameter(self, parameter: str) -> Reference:
        """Return the reference to the full array of a parameter."""
        own = next((r for r, name in self.outside.items() if name == parameter), None)
        return own or Reference(None, parameter)

    def named_outside(self, surroundings: Surroundings, name: str, value: Any) -> Any:
        """Return the stand-in for the value of a name from outside."""
        return self.from_outside(Reference(surroundings, name), value)

    def from_outside(self, reference: Reference, value: Any) -> Any:
        """Return the stand-in for a value from outside: an array as a parameter, a container with its parts, an object whose
        attributes are from outside.
        """
        if is_data(value):
            return self._array_from_outside(reference, value)
        if is_method(value) and is_object(value.__self__):
            of = Reference(reference.surroundings, reference.name, reference.steps[:-1])
            return OutsideMethod(value, OutsideObject(self, of, value.__self__))
        if isinstance(value, Laid):
            parts = [self.from_outside(reference.entry(x), part) for x, _, part in parts_of(value)]
            if value.form.make is dict:
                return dict(zip(value.form.names, parts, strict=True))
            return parts if value.form.make is list else Record(parts, value.form, self.method_of)
        if isinstance(value, dict | list | tuple) and has_data(value):
            found = {x: self.from_outside(reference.entry(x), y) for x, _, y in parts_of(value)}
            if isinstance(value, dict):
                return found
            return [*found.values()] if isinstance(value, list) else tuple(found.values())
        return OutsideObject(self, reference, value) if is_object(value) else value

    def _array_from_outside(self, reference: Reference, value: Any) -> Any:
        """Return the parameter for an array from outside; if it is new, `ArrayMet` starts tracing again with it."""
        name = self._name_outside(reference)
        if name not in self.arguments:
            parameter = Parameter(name, *observed(name, value))
            raise ArrayMet(reference, parameter, getattr(value, "shape", ()))
        return self.arguments[name]

    def _name_outside(self, reference: Reference) -> str:
        """Return the name of the parameter for a value from outside."""
        name = self.outside.get(reference)
        return name or fresh(reference.word, self.used | {*self.outside.values()})

    def as_numbers(self, data: Data) -> Value:
        """Return an array of integers as numbers to compute with: a further parameter, by which nothing is differentiated.
        Conditions become 1 or 0.
        """
        if isinstance(data.type, TupleSet):
            raise self.error(f"`{data.name}` is not an array of numbers", set_help(data.name))
        if isinstance(data.type, Relation):
            made = self.build(data.dims, lambda *at: self.truth_of(self.related(data, at)))
            return made.of_nature(Nature(numbers="bool"))
        reference = self._reference_of_parameter(data.name).as_floats
        name = self._name_outside(reference)
        if name not in self.arguments:
            raise ArrayMet(reference, Parameter(name, array(data.type.dims), None))
        numbers = self.arguments[name]
        self.numbers[name] = self.arguments[data.name]
        made = self.build(data.dims, lambda *at: self.read(numbers, *data.places(at)))
        if data.offset != Affine.of(0):
            made = self.computed("+", made, Index(self, data.offset))
        return made.of_nature(Nature(numbers="int"))

    # Functions of functions

    def mapped_over(self, function: Any, *values: Any) -> Iteration:
        """Return `map(f, x, y)`."""
        over = self.zipped(*values)

        def call(item: Any) -> Any:
            return self.applied(function, *item)

        fixed = None if over.fixed is None else tuple(map(call, over.fixed))
        return Iteration(over.length, lambda a: call(over.item(a)), fixed)

    def arranged(self, function: Any, *given: Any, **named: int) -> Iteration:
        """Return `itertools.product`, `combinations` or `permutations` of literal containers."""
        each = [
            x if isinstance(x, int) else (getattr(x, "written", None) or self.iteration(x).fixed)
            for x in given
        ]
        if any(one is None for one in each):
            raise self.error(
                f"`{function.__name__}` of arrays is a flat list", "write a loop in a loop"
            )
        items = tuple(function(*each, **named))
        return Iteration(Affine.of(len(items)), self._nowhere, items)

    def rest_of(self, value: Any) -> Iteration:
        """Return an iteration without its first item."""
        return self.first_and_rest(self.iteration(value))[1]

    def first_and_rest(self, over: Iteration) -> tuple[Any, Iteration]:
        """Return the first item of an iteration that has one, and an iteration over the others."""
        if over.fixed is not None:
            if not over.fixed:
                raise self.error("this has no first entry", "give an initial value")
            rest = over.fixed[1:]
            return over.fixed[0], Iteration(Affine.of(len(rest)), self._nowhere, rest)
        self.looked("the first entry", "what this goes over", Affine.of(0), over.length)
        return over.item(Affine.of(0)), Iteration(over.length - 1, lambda a: over.item(a + 1))

    def listed_from(self, value: Any) -> Any:
        """Return `list(value)`."""
        if isinstance(value, set | frozenset):
            return self._members(list(value))
        if not isinstance(value, Iteration):
            return self._structure(value)
        if value.fixed is not None:
            return list(value.fixed)
        return self.every([value], lambda rows: rows[0]).of_nature(Nature(1))

    def new_list(self, value: Any) -> Any:
        """Return `list(…)`; of the numbers in an array, a new list, to which entries may be appended."""
        made = self.listed_from(value)
        if isinstance(made, Value) and not lists_of(made) and len(self.dims(made)) == 1:
            return self.every([self.iteration(made)], lambda rows: rows[0]).of_nature(
                replace(made.nature, lists=1, shares=frozenset())
            )
        return made

    def _members(self, values: list[Any]) -> Any:
        """Return the members of a constant set as a list; of integers, as one that can index."""
        return self.written_out(values) if all(isinstance(x, int) for x in values) else values

    def iteration_of_all(self, value: Any) -> Iteration:
        """Return an iteration over an array's entries, or over all arrays of a container side by side."""
        leaves: list[Any] = []
        rebuilt = self.flattened(value, leaves)
        if len(leaves) == 1 and leaves[0] is value:
            return self.iteration(value)
        over = self.zipped(*leaves)
        return Iteration(over.length, lambda a: rebuilt(iter(over.item(a))))

    def along(self, value: Any, axis: Any) -> Iteration:
        """Return an iteration over the parts of an array along an axis."""
        if not isinstance(axis, int):
            raise self.error("`in_axes` are numbers or None here", "call it with arrays")
        if axis == 0:
            return self.iteration_of_all(value)
        return self.iteration(forms.build(self, "moveaxis", value, axis, 0))

    def every(
        self, iterations: Sequence[Iteration | None], body: Callable[[list[Any]], Any]
    ) -> Any:
        """Return `[body(rows) for rows in zip(…)]`; if the body returns several results, an array for each."""
        length = functools.reduce(self.same, (one.length for one in iterations if one))
        index = self.name("i")
        at = Affine.of(index)
        with self.scope(Binder(index, length)) as scope:
            result = self._structure(body([one and one.item(at) for one in iterations]))
            leaves: list[Any] = []
            rebuilt = self.flattened(result, leaves)
            terms = [self.whole(leaf).term for leaf in leaves]
        if len(terms) == 1:
            return rebuilt(iter([Value(self, Gen(index, length, lets(scope.bindings, terms[0])))]))
        turn = lets(scope.bindings, to_pairs(terms, Pair))
        rows = self._bind("rows", Value(self, Gen(index, length, turn)))
        parts = components(At(rows.term, at), len(terms))
        return rebuilt(Value(self, Gen(index, length, part)) for part in parts)

    def flattened(self, value: Any, leaves: list[Any]) -> Callable[[Iterator[Any]], Any]:
        """Append the arrays of nested containers to `leaves`; return a function that rebuilds the containers from other
        arrays.
        """
        value = self._structure(value)
        if value is None:
            return lambda _: None
        if isinstance(value, dict):
            parts = {key: self.flattened(part, leaves) for key, part in value.items()}
            return lambda rest: {key: part(rest) for key, part in parts.items()}
        if isinstance(value, tuple | list):
            made = [self.flattened(part, leaves) for part in value]
            form = value.form if isinstance(value, Laid) else None
            kind_ = list if isinstance(value, list) else tuple
            return lambda rest: (
                Laid([part(rest) for part in made], form)
                if form
                else kind_(part(rest) for part in made)
            )
        leaves.append(value)
        return next

    def leaves_of(self, tree: Any) -> list[Any]:
        """Return the arrays of a tree in JAX's order: dictionaries by their sorted keys."""
        tree = self._structure(tree)
        if isinstance(tree, dict):
            return [leaf for key in sorted(tree) for leaf in self.leaves_of(tree[key])]
        if isinstance(tree, tuple | list):
            return [leaf for part in tree for leaf in self.leaves_of(part)]
        return [] if tree is None else [tree]

    def carried_on(
        self,
        over: Iteration,
        name: str,
        start: Any,
        iteration: Callable[[Any, Any], tuple[Any, list[Any]]],
        first: Sequence[Any] = (),
    ) -> tuple[Any, list[Any]]:
        """Trace a loop that carries one value.

        Args:
            iteration: an iteration: from the item and the carried value to the next value and the further results.
            first: the entries before those of the iterations.

        Returns:
            The last value, and an array of each further result of the iterations.
        """
        k = self.here
        if over.fixed is not None and len(over.fixed) <= LONG:
            rows: list[list[Any]] = []
            for item in over.fixed:
                start, given = iteration(item, start)
                start = self._bind(name, start)
                rows.append([self._bind("given", x) for x in given])
            entries = [[*first, *x] for x in zip(*rows, strict=True)]
            return start, [self.whole(self.written_out(x)) for x in entries]
        over = Iteration(over.length, over.item)

        def body(x: Any, carry: Any) -> tuple[Any, ...]:
            after, given = iteration(x, carry)
            lists = []
            for value in given:
                before = self.whole(self.written_out([*first])) if first else None
                lists.append(Appended("given", before, 0, 0))
                lists[-1].value = self.whole(value)
            return (after, *lists)

        last, *given = self.one_by_one(Loop(k, "x", over, body, (name,), (False,), (start,)))
        return last, given

    # Whole functions

    def parameter(self, name: str, value: Any) -> Parameter:
        """Return the parameter that fits an argument of a call."""
        if isinstance(value, Value) and value.data is not None:
            return Parameter(name, value.data.type, None)
        if isinstance(value, Index) and affine_of(value) is not None:
            return Parameter(name, Integer(), None)
        term, layout = self.pack(value)
        return Parameter(name, term.type, layout)

    def inline(self, name: str, rewritten: Rewritten, bound: inspect.BoundArguments) -> Any:
        """Trace another function's body in place, its lets in the scope of the call."""
        if any(rewritten is one for one in self.stack):
            self._require_known_sizes(name, bound)
        outer, place, here = self.places, self.place, self.here
        self.stack.append(rewritten)
        self.places = rewritten.places
        try:
            made = {x: self._bind(x, value) for x, value in bound.arguments.items()}
            bound.arguments.update(made)
            return rewritten.build(self)(*bound.args, **bound.kwargs)
        finally:
            self.stack.pop()
            self.places, self.place, self.here = outer, place, here

    def barred(self, message: str) -> UnreadableValue:
        """Return a stand-in for a value that cannot be read, with the reason."""
        return UnreadableValue(message, "")

    def _require_known_sizes(self, name: str, bound: inspect.BoundArguments) -> None:
        """In a recursive call, require that array sizes are numbers, so that the recursion ends."""
        self.recurrences += 1
        for value in bound.arguments.values():
            if isinstance(value, Value) and isinstance(value.type, Array):
                for size in self.dims(value):
                    self.number(size)
            elif (a := affine_of(value)) is not None:
                self.number(a)
        if self.recurrences > RECURRENCES or len(self.stack) > LONG:
            raise self.error(
                f"`{name}` calls itself without end, or more than {RECURRENCES} times",
                "end it where a size is small: `if len(A) == 1: return …`; or write a comprehension over `range`",
            )

    def apply(self, traced: Traced, lookups: Sequence[Lookup], arguments: dict[str, Any]) -> Value:
        """Call a derived function: bind its parameters to the arguments, and take over its range checks."""
        body = traced.function.body
        values: dict[str, Term] = {}
        sizes: dict[str, Affine] = {}
        references = dict(traced.outside)
        for x, type_ in traced.function.parameter_type:
            argument = arguments.get(x)
            if argument is None:
                argument = self._argument_outside(references[x], arguments)
            if isinstance(type_, Integer):
                sizes[reserve_generated_names(x)] = self.affine(argument, f"`{x}`")
            elif isinstance(argument, Value) and argument.data is not None:
                if (given := argument.data.name) != x:
                    raise self.error(
                        f"`{x}` is `{given}` here",
                        f"name the parameter `{x}` in both functions",
                    )
            else:
                values[x] = self._bind(x, Value(self, self.pack(argument)[0])).term
        for lookup in lookups:
            at = [a.substitute(sizes) for a in (*lookup.arguments, lookup.offset, lookup.size)]
            self.lookups.append(
                replace(
                    lookup,
                    arguments=tuple(at[:-2]),
                    offset=at[-2],
                    size=at[-1],
                    binders=tuple(Binder(i, n.substitute(sizes)) for i, n in lookup.binders),
                    condition=at_values(lookup.condition, sizes),
                    place=self.place,
                )
            )
        applied = statement = substitute(body, values, sizes)
        while isinstance(statement, Let):
            self.note(statement.value)
            statement = statement.body
        return Value(self, applied, traced.layout)


RECURRENCES = 200  # how often functions may call themselves, each written out
_MODULES = ("math", *forms.MODULES)
DICT = ("items", "keys", "values")
_ITERATING = (builtins.zip, builtins.enumerate, builtins.reversed, builtins.map)
_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: Tracer.length,
    builtins.sum: forms.total_of,
    builtins.zip: lambda t, *xs, **_: t.zipped(*xs),
    builtins.enumerate: Tracer.enumerated,
    builtins.reversed: Tracer.backwards,
    builtins.sorted: Tracer.sorted_list,
    builtins.range: Tracer.ranged,
    builtins.map: Tracer.mapped_over,
    dataclasses.replace: Tracer.replaced,
    functools.reduce: lambda t, *xs: forms.build(t, "functools.reduce", *xs),
    itertools.accumulate: lambda t, *xs, **named: forms.form_named("itertools.accumulate").call(
        t, xs, named
    ),
    **{
        function: functools.partial(
            lambda f, t, *xs, **named: t.arranged(f, *xs, **named), function
        )
        for function in (itertools.product, itertools.combinations, itertools.permutations)
    },
    itertools.pairwise: lambda t, x: t.zipped(x, t.rest_of(x)),
    builtins.any: lambda t, xs: t.any(t.here, "truth", t.iteration(xs), lambda truth: truth),
    builtins.all: lambda t, xs: t.all(t.here, "truth", t.iteration(xs), lambda truth: truth),
    builtins.tuple: lambda t, xs: t.listed_from(xs),
    builtins.list: Tracer.new_list,
    builtins.abs: Tracer.absolute,
    builtins.round: lambda t, x, digits=0: (
        round(x, digits) if isinstance(x, int | float) else forms.build(t, "round", x, digits)
    ),
    builtins.divmod: lambda t, x, y: (t.binary(t.here, "//", x, y), t.binary(t.here, "%", x, y)),
    builtins.max: lambda t, *xs, key=None: t.extreme("maximum", xs, key),
    builtins.min: lambda t, *xs, key=None: t.extreme("minimum", xs, key),
    builtins.int: lambda t, x: int(x) if isinstance(x, int | float) else t.whole_number(x),
    builtins.float: lambda t, x: (
        float(x) if isinstance(x, str) else Value(t, t.scalar(x, "`float`"))
    ),
}
