"""How models and variables are reached from a notebook's names: `m`, `models['a']`, `trainer.net`.

The same cells make the same containers on the ranks as in the notebook, so a path that leads to a model here leads to its
counterpart there, and two names for one model are two paths to one object.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

from .serialization import is_plain, keras_kind, size_of

#: Packages whose objects are not looked into: models come from there, and are found themselves.
LIBRARIES = frozenset(
    {
        *("IPython", "h5py", "horovod", "ipyparallel", "jax", "jupyter_hvd", "keras", "matplotlib"),
        *("numpy", "pandas", "sklearn", "tensorflow", "tf_keras", "torch"),
    }
)
#: Bytes up to which a plain value comes back that an object of the user's own holds.
SMALL_PART = 2**20
#: How many parts of one object, and how many objects below one name, are looked at.
MOST = 100_000


class Step(NamedTuple):
    """From an object to a part of it: an attribute, an entry by its key, by its place where the key means nothing in
    another process, or what a function has kept by a name.
    """

    kind: Literal["attribute", "entry", "place", "kept"]
    key: Any

    def take(self, value: Any) -> Any:
        match self.kind:
            case "attribute":
                return getattr(value, self.key)
            case "entry":
                return value[self.key]
            case "place":
                return next(islice(value.values(), self.key, None))
            case "kept":
                return kept_by(value)[self.key]

    def __str__(self) -> str:
        match self.kind:
            case "attribute":
                return f".{self.key}"
            case "kept":
                return f"({self.key})"
            case "place":
                return f"[no. {self.key}]"
            case _:
                return f"[{self.key!r}]"


@dataclass(frozen=True)
class AccessPath:
    name: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join(map(str, self.steps))

    def put(self, namespace: Mapping[str, Any], value: Any) -> None:
        """Let its last step lead to something else; nothing happens where the others lead to nothing."""
        owner = AccessPath(self.name, self.steps[:-1]).follow(namespace)
        if self.steps[-1].kind == "attribute" and owner is not None:
            setattr(owner, self.steps[-1].key, value)
        elif isinstance(owner, (dict, list)):
            owner[self.steps[-1].key] = value

    def follow(self, namespace: Mapping[str, Any]) -> Any:
        """What it leads to; None where it leads to nothing."""
        value = namespace.get(self.name)
        for step in self.steps:
            try:
                value = step.take(value)
            except Exception:  # a property of the user's own may raise anything
                return None
        return value


@dataclass(frozen=True)
class Reached:
    """What has weights, and the paths that lead to it, one from each name."""

    value: Any
    paths: tuple[AccessPath, ...]


def reached(namespace: Mapping[str, Any], names: Sequence[str]) -> list[Reached]:
    """All that has weights and is reached from some names, which need not be there."""
    found: dict[int, tuple[Any, list[AccessPath]]] = {}
    for name in names:
        if name in namespace:
            for path, _, value in _below(AccessPath(name), namespace[name]):
                if keras_kind(value) == "weights":
                    found.setdefault(id(value), (value, []))[1].append(path)
    return [Reached(value, tuple(paths)) for value, paths in found.values()]


@dataclass(frozen=True)
class Part:
    """A small plain value, and whose attribute or entry it is."""

    path: AccessPath
    owner: Any
    value: Any


def plain_parts(namespace: Mapping[str, Any], names: Sequence[str]) -> list[Part]:
    """The small plain values that objects of the user's own hold, below some names which stand for no plain values."""
    return [
        Part(path, owner, value)
        for name in names
        if name in namespace and not is_plain(namespace[name])
        for path, owner, value in _below(AccessPath(name), namespace[name])
        if not (owner is None or is_plain(owner))
        and not isinstance(owner, (type, types.FunctionType))
        and path.steps[-1].kind in ("attribute", "entry")
        and is_plain(value)
        and size_of(value) <= SMALL_PART
    ]


def _below(path: AccessPath, value: Any) -> Iterator[tuple[AccessPath, Any, Any]]:
    """A value and what is below it, each object once, by the shortest way, with whose part it is; nothing that is below what
    has weights, or is plain.
    """
    todo = deque([(path.steps, None, value)])
    known = {id(value): value}  # kept, so that no other object gets its id meanwhile
    while todo:
        steps, owner, value = todo.popleft()
        yield AccessPath(path.name, steps), owner, value
        if isinstance(value, LEAVES) or keras_kind(value) == "weights":
            continue
        for step, part in islice(parts_of(value), MOST):
            if isinstance(part, LEAVES):
                if step.kind == "attribute" or isinstance(value, dict):
                    todo.append(((*steps, step), value, part))
            elif id(part) not in known and len(known) < MOST:
                known[id(part)] = part
                todo.append(((*steps, step), value, part))


LEAVES = (types.NoneType, bool, int, float, complex, str, bytes, types.ModuleType)


def parts_of(value: Any) -> Iterator[tuple[Step, Any]]:
    """The parts of a container, of an object of the user's own, and what a function has kept."""
    if isinstance(value, dict):
        for place, (key, part) in enumerate([*value.items()]):  # which a thread may add to
            yield Step("entry", key) if is_plain(key) else Step("place", place), part
    elif isinstance(value, (list, tuple, deque)):
        for place, part in enumerate([*value]):
            yield Step("entry", place), part
    if isinstance(value, types.FunctionType):
        for name, part in kept_by(value).items():
            yield Step("kept", name), part
    for name, part in attributes(value).items():
        yield Step("attribute", name), part


def attributes(value: Any) -> Mapping[str, Any]:
    """The attributes of an object or class of the user's own; of a few others those that hold what they were made of."""
    if isinstance(value, functools.partial):
        return {name: getattr(value, name) for name in ("func", "args", "keywords")}
    if isinstance(value, types.MethodType):
        return {"__self__": value.__self__}
    if hasattr(type(value), "python_function"):  # what tf.function makes
        return {"python_function": value.python_function}
    kind = value if isinstance(value, type) else type(value)
    top = kind.__module__.partition(".")[0]
    own = top not in LIBRARIES and top not in sys.stdlib_module_names
    if not own and not isinstance(value, (types.SimpleNamespace, types.FunctionType)):
        return {}
    if hasattr(value, "apply_gradients") and not isinstance(value, type):
        return {}  # what an optimizer keeps is not what it trains
    if isinstance(value, type):
        return {n: part for n, part in vars(value).items() if not n.startswith("__")}
    slots = [s for c in kind.__mro__ for s in _slots(c) if hasattr(value, s)]
    return {**{s: getattr(value, s) for s in slots}, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> Sequence[str]:
    found = vars(kind).get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return [name for name in names if not name.startswith("__")]


def kept_by(function: types.FunctionType) -> Mapping[str, Any]:
    """What a function has kept of where it was made, by its names."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
