"""What a rank's variables are, in words and as digests, so that ranks can be compared without sending values."""

from __future__ import annotations

import re
import reprlib
import signal
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .paths import TRAINED, AccessPath, Step, attributes, below
from .serialization import (
    SerializedValue,
    digest,
    draws,
    is_plain,
    keras_kind,
    pack,
    size_of,
    weights_of,
)

#: Seconds after which a `repr` is given up.
REPR_LIMIT = 1.0
#: How many characters of a value, and how many entries of an array, are shown.
MOST_CHARACTERS, MOST_ENTRIES = 80, 3
#: How many plain attributes of an object are compared.
MOST_ATTRIBUTES = 50
#: What no `%hvd vars` without names shows.
NOT_SHOWN = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class VariableSummary:
    """A variable of one rank.

    Attributes:
        text: its type and value in words.
        digest: of its value; None for what cannot be compared.
        size: of its value, in bytes.
        parts: for what has weights, their names.
    """

    text: str
    digest: int | None = None
    size: int = 0
    parts: tuple[str, ...] = ()


def summarize_variables(names: Sequence[str]) -> dict[str, VariableSummary]:
    """Some of this rank's variables, or all of the user's, by how they are written.

    Args:
        names: of variables, or of parts of them such as `trainer.net`; none for all.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    return {
        str(path): summarize(value)
        for path, value in listed(shell.user_ns, names, shell.user_ns_hidden)
    }


def values_of_variables(names: Sequence[str]) -> dict[str, SerializedValue]:
    """The values of variables, by how they are written, as far as they can be sent."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    found = listed(shell.user_ns, names, shell.user_ns_hidden)
    return {str(path): pack(value, limit=None) for path, value in found if str(path) in names}


def listed(
    namespace: Mapping[str, Any], names: Sequence[str], hidden: Mapping[str, Any]
) -> Iterator[tuple[AccessPath, Any]]:
    """The variables to show, each object once, with the path that leads to it."""
    roots = {re.split(r"[.\[({]", name, maxsplit=1)[0] for name in names}
    shown = sorted(roots & namespace.keys()) or [
        name
        for name, value in sorted(namespace.items())
        if not names and name[0] != "_" and name not in hidden and not isinstance(value, NOT_SHOWN)
    ]
    seen = dict[int, Any]()  # kept, so that no other object gets an id
    for name in shown:
        for path, value in rows_of(AccessPath(name), namespace):
            asked = not names or any(str(path).startswith(each) for each in names)
            if asked and (not path.steps or id(value) not in seen):
                seen[id(value)] = value
                yield path, value


def rows_of(path: AccessPath, namespace: Mapping[str, Any]) -> Iterator[tuple[AccessPath, Any]]:
    """A variable, and what of it is compared by itself: what has weights or a state, and plain attributes."""
    value = namespace[path.name]
    yield path, value
    if is_plain(value):
        return
    own = list(attributes(value).items())[:MOST_ATTRIBUTES]
    for name, part in own:
        if is_plain(part) and not name.startswith("_"):
            yield AccessPath(path.name, (Step("attribute", name),)), part
    for each, part in below(namespace, [path.name]):
        if each.steps and keras_kind(part) in TRAINED:
            yield each, part


def summarize(value: Any) -> VariableSummary:
    """Say what a value is, and digest it if it can be compared."""
    kind = keras_kind(value)
    text = text_of(value)
    if kind is None and not is_plain(value):
        return VariableSummary(text)
    packed = pack(value, limit=None)
    if packed.kind == "none" or (kind in TRAINED and not packed.data):
        return VariableSummary(text)
    parts = weights_of(value) if kind in TRAINED and not draws(value) else []
    names = tuple(str(getattr(part, "path", part.name)) for part in parts)
    return VariableSummary(text, digest(packed), size_of(packed), names)


def text_of(value: Any) -> str:
    """A value in one line of at most `MOST_CHARACTERS`; what its own `repr` says, where that ends in time."""
    kind = keras_kind(value)
    name = type(value).__name__
    if kind == "tensor" or (kind == "weights" and not hasattr(type(value), "weights")):
        return f"{name}: {text_of(value.numpy())}"
    if kind in TRAINED and not draws(value):
        own = weights_of(value)
        numbers = sum(int(part.shape.num_elements()) for part in own)
        of_all = f"{plural(len(own), 'variable')}, {plural(numbers, 'number')}"
        return f"{name}: {of_all if own else 'not built'}"
    if kind == "history":
        return f"{name}: {text_of(value.history)}"
    if hasattr(value, "dtype") and hasattr(value, "shape") and hasattr(value, "flat"):
        return text_of_array(value)
    if hasattr(value, "shape") and is_plain(value):  # a table
        return f"{name} {tuple(value.shape)}"
    try:
        with time_limit(REPR_LIMIT):
            text = SHORT.repr(value)
    except TooSlow:
        return f"{name}: its repr takes longer than {REPR_LIMIT:g} s"
    except Exception as error:  # of the user's own, or of a number with too many digits
        return f"{name}: its repr raises {type(error).__name__}"
    return shortened(_ADDRESS.sub("", " ".join(text.split())))


def text_of_array(array: Any) -> str:
    """An array's type, shape and first entries, and how many are not finite."""
    import numpy as np

    shape = f" {tuple(array.shape)}" if array.shape else ""
    first = ", ".join(
        f"{entry:.6g}" if array.dtype.kind == "f" else str(entry)
        for entry in array.flat[:MOST_ENTRIES]
    )
    more = ", …" if array.size > MOST_ENTRIES else ""
    lost = int(array.size - np.isfinite(array).sum()) if array.dtype.kind in "fc" else 0
    told = f" ({lost} not finite)" if lost else ""
    return shortened(f"{array.dtype}{shape}: {first}{more}") + told


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + "…"


#: Python's own containers are read no further than is shown of them.
SHORT = reprlib.Repr()
SHORT.maxstring = SHORT.maxother = SHORT.maxlong = MOST_CHARACTERS
SHORT.fillvalue = "…"


class TooSlow(BaseException):
    """What runs takes longer than it may. No Exception: `except Exception` in the user's code is not to catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in what takes longer, and again where that is caught.

    Must be used in the main thread; a call that never comes back to Python goes on.
    """

    def stop(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
