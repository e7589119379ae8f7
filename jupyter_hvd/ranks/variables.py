"""Describes a rank's variables in words and as digests, so that ranks can be compared without sending values."""

from __future__ import annotations

import re
import reprlib
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from . import process_state
from .bounded_calls import BoundedCalls, UnansweredError
from .code import is_code, packed_code, text_of_code
from .paths import TRAINED, AccessPath, Step, module_of, objects_below, own_attributes
from .serialization import (
    PLAIN_MODULES,
    SerializedValue,
    digest_value,
    is_plain,
    is_random_generator,
    keras_kind,
    pack_value,
    size_of,
    weights_of,
)
from .settings import settings_of

#: How many characters of a value, and how many entries of an array, are shown.
MOST_CHARACTERS, MOST_ENTRIES = 80, 3
#: How many plain attributes of an object are compared.
MOST_ATTRIBUTES = 50
#: Beside a running cell no container with more elements is compared: pickling it would hold up the cell.
MOST_ELEMENTS = 100_000
#: How deep tensors are looked for in containers; as deep as `is_plain` looks.
MOST_DEPTH = 8
#: What no `%hvd vars` without names shows.
NOT_SHOWN = (types.ModuleType, types.BuiltinFunctionType)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class VariableSummary:
    """A variable of one rank.

    Attributes:
        text: its type and value in words.
        digest: of its value; None for what cannot be compared.
        size: of its value, in bytes.
        parts: for what has weights, their names.
        in_background: whether it is listed only where ranks differ, unless it is asked for.
        is_secret: whether its value is not to be shown.
        is_unread: whether its `repr` took too long, so that the text says nothing about the value.
    """

    text: str
    digest: int | None = None
    size: int = 0
    parts: tuple[str, ...] = ()
    in_background: bool = False
    is_secret: bool = False
    is_unread: bool = False


class Row(NamedTuple):
    """A variable, or a part of one, with the path that leads to it; `in_background` as for `VariableSummary`."""

    path: AccessPath
    value: Any
    in_background: bool = False


def summarize_variables(names: Sequence[str], beside: bool = False) -> dict[str, VariableSummary]:
    """Return summaries of this rank's variables, by path; of all the user's, with the state of the process, by default.

    Args:
        names: of variables, or of parts of them such as `trainer.net`; all if empty.
        beside: whether the main thread may run a cell meanwhile; then no code of the user's is called.
    """
    calls = None if beside else BoundedCalls()
    found = {
        str(row.path): summarize_row(row, calls)
        for row in list_variables(*_cell_namespaces(), names, calls)
    }
    of_process = [
        (row.name, summarize_state(row, in_background=not names))
        for row in process_state.state_rows()
        if not names or any(row.name.startswith(name) for name in names)
    ]
    return {**found, **dict(of_process)}


def values_of_variables(names: Sequence[str], beside: bool = False) -> dict[str, SerializedValue]:
    """Return the values of variables by path, as far as they can be sent; arguments as for `summarize_variables`."""
    found = {
        str(row.path): pack_comparable(row.value)
        for row in list_variables(*_cell_namespaces(), names, None if beside else BoundedCalls())
        if str(row.path) in names
    }
    of_process = {row.name: row for row in process_state.state_rows() if row.name in names}
    return {**found, **{n: pack_value(r.value) for n, r in of_process.items() if not r.is_secret}}


def _cell_namespaces() -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the names of the rank's cells with their values, and the names that are IPython's own."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    return dict(shell.user_ns), shell.user_ns_hidden


def list_variables(
    namespace: Mapping[str, Any],
    hidden: Mapping[str, Any],
    names: Sequence[str],
    calls: BoundedCalls | None = None,
) -> Iterator[Row]:
    """Yield the variables to show, each object once, with the path that leads to it.

    Args:
        hidden: names that are not the user's.
        calls: for the user's own code; None to call none of it.
    """
    roots = {re.split(r"[.\[({]", name, maxsplit=1)[0] for name in names}
    shown = sorted(roots & namespace.keys()) or [
        name
        for name, value in sorted(namespace.items())
        if not names and name[0] != "_" and name not in hidden and not is_imported(value)
    ]
    seen = dict[int, Any]()  # kept, so that no other object gets an id
    for name in shown:
        for row in rows_of(AccessPath(name), namespace, calls):
            asked = not names or any(str(row.path).startswith(each) for each in names)
            if asked and (not row.path.steps or id(row.value) not in seen):
                seen[id(row.value)] = row.value
                yield row if not names else row._replace(in_background=False)


def is_imported(value: Any) -> bool:
    """Whether a value is a module, or a function or class that no cell has made."""
    if isinstance(value, (types.FunctionType, type)):
        return value.__module__ != "__main__"
    return isinstance(value, NOT_SHOWN)


def rows_of(
    path: AccessPath, namespace: Mapping[str, Any], calls: BoundedCalls | None
) -> Iterator[Row]:
    """Yield a variable, and those parts of it that are compared separately: weights or state, settings, and plain attributes.

    Code that cells have made, with all of its parts, is in the background.
    """
    value = namespace[path.name]
    in_background = is_code(value)
    yield Row(path, value, in_background)
    if is_plain(value):
        return
    own = list(own_attributes(value).items())[:MOST_ATTRIBUTES]
    for name, part in own:
        if is_plain(part) and not name.startswith("_"):
            yield Row(AccessPath(path.name, (Step("attribute", name),)), part, in_background)
    for each, part in objects_below(namespace, [path.name]):
        if each.steps and keras_kind(part) in TRAINED:
            yield Row(each, part, in_background)
        for name, setting in settings_of(part, calls).items():
            steps = (*each.steps, Step("attribute", name))
            yield Row(
                AccessPath(each.name, steps), setting, in_background or name != "learning_rate"
            )


def pack_comparable(value: Any) -> SerializedValue:
    """Serialize a value for a comparison entry by entry; of kind "none" if that is impossible."""
    return packed_code(value) if is_code(value) else pack_value(with_arrays(value), limit=None)


def with_arrays(value: Any, depth: int = 0) -> Any:
    """Return a container with arrays in place of its tensors and variables; any other value as it is."""
    if depth > MOST_DEPTH or type(value) not in CONTAINERS or is_plain(value):
        return array_of(value) if depth else value
    if isinstance(value, dict):
        return {key: with_arrays(part, depth + 1) for key, part in value.items()}
    if isinstance(value, (set, frozenset)):
        return value
    return type(value)(with_arrays(part, depth + 1) for part in value)


def array_of(value: Any) -> Any:
    """Return the numbers of a tensor or a variable, or a list of its texts; any other value as it is."""
    is_variable = keras_kind(value) == "weights" and not hasattr(type(value), "weights")
    if not is_variable and keras_kind(value) != "tensor":
        return value
    array = value.numpy()
    is_text = hasattr(array, "dtype") and array.dtype.kind == "O"
    return array.tolist() if is_text else array


def summarize_row(row: Row, calls: BoundedCalls | None) -> VariableSummary:
    """Return a variable's summary; if reading fails, as a cell may change it meanwhile, the summary says so."""
    try:
        return summarize_value(row.value, calls, row.in_background)
    except Exception as error:
        return VariableSummary(f"cannot be read: {type(error).__name__}")


def summarize_value(
    value: Any, calls: BoundedCalls | None, in_background: bool = False
) -> VariableSummary:
    """Return a value in words, and its digest if it can be compared.

    Args:
        calls: for the user's own code; None to call none of it, because the main thread may run a cell.
    """
    if is_code(value):
        code = packed_code(value)
        return VariableSummary(
            text_of_code(value), digest_value(code), size_of(code), (), in_background
        )
    kind = keras_kind(value)
    is_unread = False
    try:
        text = text_of(value, calls)
    except UnansweredError as error:
        text, is_unread = f"{type(value).__name__}: its repr {error}", True
    is_large = calls is None and isinstance(value, CONTAINERS) and len(value) > MOST_ELEMENTS
    uncompared = VariableSummary(text, in_background=in_background, is_unread=is_unread)
    if is_large:
        return uncompared
    sent = pack_comparable(value)
    if sent.kind == "none" or (kind in TRAINED and not sent.data):
        return uncompared
    parts = weights_of(value) if kind in TRAINED and not is_random_generator(value) else []
    names = tuple(str(getattr(part, "path", part.name)) for part in parts)
    return VariableSummary(text, digest_value(sent), size_of(sent), names, in_background)


def summarize_state(row: process_state.State, in_background: bool) -> VariableSummary:
    """Return the summary of a part of the state of the process; the value of what may be a secret is not shown."""
    text = "set (its value is not shown)" if row.is_secret else row.text or text_of(row.value, None)
    sent = pack_value(row.value)
    return VariableSummary(
        text, digest_value(sent), size_of(sent), (), in_background, row.is_secret
    )


def text_of(value: Any, calls: BoundedCalls | None) -> str:
    """Return a value in one line of at most `MOST_CHARACTERS`.

    Args:
        calls: for a `repr` of the user's own; None to call none.

    Raises:
        UnansweredError: its `repr` takes too long.
    """
    kind = keras_kind(value)
    name = type(value).__name__
    if kind == "tensor" or (kind == "weights" and not hasattr(type(value), "weights")):
        return f"{name}: {text_of(value.numpy(), calls)}"
    if kind in TRAINED and not is_random_generator(value):
        own = weights_of(value)
        numbers = sum(int(part.shape.num_elements()) for part in own)
        of_all = f"{plural_of(len(own), 'variable')}, {plural_of(numbers, 'number')}"
        return f"{name}: {of_all if own else 'not built'}"
    if kind == "history":
        return f"{name}: {text_of(value.history, calls)}"
    if hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "flat"):
        return text_of_array(value)
    if hasattr(value, "shape") and is_plain(value):  # a table
        return f"{name} {tuple(value.shape)}"
    try:
        text = (
            LIBRARIES_ONLY.repr(value) if calls is None else calls.call(partial(SHORT.repr, value))
        )
    except UnansweredError:
        raise
    except Exception as error:  # of the user's own, or of a number with too many digits
        return f"{name}: its repr raises {type(error).__name__}"
    return shorten_text(_ADDRESS.sub("", " ".join(text.split())))


def text_of_array(array: Any) -> str:
    """Return an array's type, shape and first entries, and how many are not finite, as text."""
    import numpy as np

    shape = f" {tuple(array.shape)}" if array.shape else ""
    first = ", ".join(
        f"{entry:.6g}" if array.dtype.kind == "f" else str(entry)
        for entry in array.flat[:MOST_ENTRIES]
    )
    more = ", …" if array.size > MOST_ENTRIES else ""
    lost = int(array.size - np.isfinite(array).sum()) if array.dtype.kind in "fc" else 0
    told = f" ({lost} not finite)" if lost else ""
    return shorten_text(f"{array.dtype}{shape}: {first}{more}") + told


def plural_of(count: int, noun: str) -> str:
    """Return a count with a noun, which gets an `s` unless the count is 1."""
    return f"{count} {noun}{'s' * (count != 1)}"


def shorten_text(text: str) -> str:
    """Return a text cut to `MOST_CHARACTERS`."""
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


#: Python's own containers, and other types whose `repr` calls none of the user's own.
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
OF_PYTHON = frozenset({*CONTAINERS, bool, int, float, complex, str, bytes, range, type(None)})


class LibrariesOnlyRepr(reprlib.Repr):
    """Names the type of what may have a `repr` of the user's own, and does not call it."""

    def repr1(self, x: Any, level: int) -> str:
        """Return the `repr` of known types, and the type's name for others."""
        known = type(x) in OF_PYTHON or (
            module_of(x) in PLAIN_MODULES | {"tensorflow", "keras"}
            and module_of(x) not in ("builtins", "collections")
        )
        return super().repr1(x, level) if known else type(x).__name__


#: Python's own containers are read no further than is shown of them.
SHORT, LIBRARIES_ONLY = reprlib.Repr(), LibrariesOnlyRepr()
for _repr in (SHORT, LIBRARIES_ONLY):
    _repr.maxstring = _repr.maxother = _repr.maxlong = MOST_CHARACTERS
    _repr.fillvalue = "…"
