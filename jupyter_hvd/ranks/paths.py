"""How models and variables are reached from a notebook's names: `m`, `models['a']`, `trainer.net`.

The same cells make the same containers on the ranks as in the notebook, so a path that leads to a model here leads to its
counterpart there, and two names for one model are two paths to one object.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import UserDict, UserList, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Any, Literal, NamedTuple

from ..launch.library_code import is_library
from .serialization import is_plain, keras_kind

#: Packages whose objects are not looked into: models come from there, and are found themselves.
LIBRARIES = frozenset(
    {
        *("IPython", "h5py", "horovod", "ipyparallel", "jax", "jupyter_hvd", "keras", "matplotlib"),
        *("numpy", "pandas", "sklearn", "tensorflow", "tf_keras", "torch"),
    }
)
#: How many parts of one object, and how many objects below one name, are looked at.
MOST = 100_000


class Step(NamedTuple):
    """From an object to a part of it: an attribute, an entry by its key, by its place where the key means nothing in
    another process, that key itself, the one member of a set, one of several, or what a function has kept by a name.
    Or to all that it holds, where order is part of that.
    """

    kind: Literal["attribute", "entry", "place", "key", "member", "unordered", "kept", "all"]
    key: Any

    def take_step(self, value: Any) -> Any:
        """Return the part of an object to which this step leads; raise an exception if there is none."""
        match self.kind:
            case "attribute":
                return getattr(value, self.key)
            case "entry":
                return value[self.key]
            case "place":
                return next(islice(value.values(), self.key, None))
            case "key":
                return next(islice(value, self.key, None))
            case "member":
                (only,) = value
                return only
            case "unordered":
                raise LookupError("members of a set have no order that two processes share")
            case "kept":
                return kept_by(value)[self.key]
            case "all":
                return value

    def set_value(self, owner: Any, value: Any) -> None:
        """Replace the part of `owner` to which this step leads; steps that only read are ignored."""
        match self.kind:
            case "attribute":
                setattr(owner, self.key, value)
            case "kept":
                cells = dict(zip(owner.__code__.co_freevars, owner.__closure__, strict=True))
                cells[self.key].cell_contents = value
            case "entry":
                owner[self.key] = value
            case "all" if isinstance(owner, (list, deque)):
                owner.clear()
                owner.extend(value)
            case "all":
                owner.clear()
                owner.update(value)

    def remove_value(self, owner: Any) -> None:
        """Remove the attribute or entry of `owner` to which this step leads."""
        match self.kind:
            case "attribute":
                delattr(owner, self.key)
            case "entry":
                del owner[self.key]

    def __str__(self) -> str:
        match self.kind:
            case "all":
                return ""
            case "attribute":
                return f".{self.key}"
            case "kept":
                return f"({self.key})"
            case "place":
                return f"[no. {self.key}]"
            case "key":
                return f"{{key no. {self.key}}}"
            case "member" | "unordered":
                return f"{{no. {self.key}}}"
            case _:
                return f"[{self.key!r}]"


@dataclass(frozen=True)
class AccessPath:
    name: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join(map(str, self.steps))

    @property
    def is_unordered(self) -> bool:
        """Whether the path leads into a set of several."""
        return any(step.kind == "unordered" for step in self.steps)

    def follow_path(self, namespace: Mapping[str, Any]) -> Any:
        """Return the object to which the path leads; None if there is none."""
        value = namespace.get(self.name)
        for step in self.steps:
            try:
                value = step.take_step(value)
            except Exception:  # a property of the user's own may raise anything
                return None
        return value


class Reached(NamedTuple):
    """An object, and the access paths to it from some names."""

    value: Any
    paths: tuple[AccessPath, ...]


#: What has weights, and what has these or something else that training leaves behind.
WEIGHTS, TRAINED = ("weights",), ("weights", "state")


def weighted_objects(
    namespace: Mapping[str, Any], names: Sequence[str], kinds: Sequence[str] = WEIGHTS
) -> list[Reached]:
    """Return the objects with weights that some names reach, each with its paths; unbound names are ignored.

    Args:
        kinds: the results of `keras_kind` to look for.
    """
    below = objects_below(namespace, names)
    return group_paths((path, value) for path, value in below if keras_kind(value) in kinds)


def group_paths(pairs: Iterable[tuple[AccessPath, Any]]) -> list[Reached]:
    """Group paths by the object to which they lead; each object appears once."""
    known: dict[int, tuple[Any, list[AccessPath]]] = {}
    for path, value in pairs:
        known.setdefault(id(value), (value, []))[1].append(path)
    return [Reached(value, tuple(paths)) for value, paths in known.values()]


def objects_below(
    namespace: Mapping[str, Any], names: Sequence[str]
) -> Iterator[tuple[AccessPath, Any]]:
    """Yield the objects that some names reach, directly or by entries and attributes, with their paths."""
    for name in names:
        if name in namespace:
            yield from _walk_parts(AccessPath(name), namespace[name])


def _walk_parts(path: AccessPath, value: Any) -> Iterator[tuple[AccessPath, Any]]:
    """Yield a value and its nested parts, with paths, breadth first; each object is entered once."""
    todo = deque([(path.steps, value)])
    known = {id(value): value}  # kept, so that no other object gets its id meanwhile
    yield path, value
    while todo:
        steps, value = todo.popleft()
        if isinstance(value, LEAVES):
            continue
        for step, part in islice(parts_of(value), MOST):
            if isinstance(part, LEAVES):
                continue
            yield AccessPath(path.name, (*steps, step)), part
            if id(part) not in known and len(known) < MOST:
                known[id(part)] = part
                todo.append(((*steps, step), part))


#: Types of Python's own whose attributes are what users put there.
HOLDERS = (types.SimpleNamespace, types.FunctionType, UserDict, UserList)
LEAVES = (types.NoneType, bool, int, float, complex, str, bytes, types.ModuleType)


def parts_of(value: Any) -> Iterator[tuple[Step, Any]]:
    """Yield the direct parts of a container, a user-defined object, a closure, or a model's training state."""
    if keras_kind(value) in TRAINED:
        for name, part in states_of_model(value).items():
            yield Step("attribute", name), part
        return
    if isinstance(value, dict):
        for place, (key, part) in enumerate([*value.items()]):  # which a thread may add to
            if is_plain(key):
                yield Step("entry", key), part
            else:
                yield Step("key", place), key
                yield Step("place", place), part
    elif isinstance(value, (list, tuple, deque)):
        for place, part in enumerate([*value]):
            yield Step("entry", place), part
    elif isinstance(value, (set, frozenset)):
        kind: Literal["member", "unordered"] = "member" if len(value) == 1 else "unordered"
        for place, part in enumerate([*value]):
            yield Step(kind, place), part
    elif is_array_of_objects(value):
        for index in product(*map(range, value.shape)):
            yield Step("entry", index), value[index]
    if isinstance(value, types.FunctionType):
        for name, part in kept_by(value).items():
            yield Step("kept", name), part
    for name, part in own_attributes(value).items():
        yield Step("attribute", name), part


#: What Keras notes in a model of any class, by names like a user's.
OF_KERAS = frozenset(
    "activity_regularizer autocast built compiled dtype inputs input_names loss name outputs output_names"
    " steps_per_execution stop_evaluating stop_predicting stop_training supports_jit trainable"
    " unrolled_steps_per_execution".split()
)


def states_of_model(model: Any) -> Mapping[str, Any]:
    """Return a model's optimizer, and other attributes with training state, by name."""
    own = {**_own_of_model(model), "optimizer": getattr(model, "optimizer", None)}
    return {name: part for name, part in own.items() if keras_kind(part) == "state"}


def plain_of_model(model: Any) -> Mapping[str, Any]:
    """Return the plain values that a user-defined model holds as attributes, by name."""
    own = {name: _unwrap_tracked(part) for name, part in _own_of_model(model).items()}
    return {name: part for name, part in own.items() if name not in OF_KERAS and is_plain(part)}


def module_of(value: Any) -> str:
    """Return the top-level package of a value's class."""
    return type(value).__module__.partition(".")[0]


def _own_of_model(model: Any) -> Mapping[str, Any]:
    """Return the public attributes of a model of a user-defined class; none for a library's class."""
    own = {} if module_of(model) in LIBRARIES else {**getattr(model, "__dict__", {})}
    return {name: part for name, part in own.items() if not name.startswith("_")}


def _unwrap_tracked(value: Any) -> Any:
    """Convert the lists and dictionaries with which Keras tracks changes to ordinary ones."""
    if isinstance(value, dict):
        return {key: _unwrap_tracked(part) for key, part in value.items()}
    return [*map(_unwrap_tracked, value)] if isinstance(value, list) else value


def is_array_of_objects(value: Any) -> bool:
    """Whether a value is a NumPy array of Python objects."""
    dtype = value.dtype if type(value).__module__ == "numpy" and hasattr(value, "shape") else None
    return getattr(dtype, "kind", "") == "O"


def own_attributes(value: Any) -> Mapping[str, Any]:
    """Return the attributes of a user-defined object or class, by name; for wrappers, what they wrap."""
    if isinstance(value, functools.partial):
        return {name: getattr(value, name) for name in ("func", "args", "keywords")}
    if isinstance(value, types.MethodType):
        return {"__self__": value.__self__}
    if hasattr(type(value), "python_function"):  # what tf.function makes
        return {"python_function": value.python_function}
    kind = value if isinstance(value, type) else type(value)
    top = kind.__module__.partition(".")[0]
    own = top not in LIBRARIES and top not in sys.stdlib_module_names
    if not own and not isinstance(value, HOLDERS):
        return {}
    if isinstance(value, type):
        if is_of_a_library(value):  # as `tqdm.monitor`, which the library changes by itself
            return {}
        return {n: part for n, part in vars(value).items() if not n.startswith("__")}
    slots = [s for c in kind.__mro__ for s in _slot_names(c) if hasattr(value, s)]
    found = {**{s: getattr(value, s) for s in slots}, **getattr(value, "__dict__", {})}
    back = (
        ("model", "_model") if hasattr(value, "set_model") else ()
    )  # which `fit` gives a callback
    return {name: part for name, part in found.items() if name not in back}


def is_of_a_library(kind: type) -> bool:
    """Whether a class is defined by a package that is installed, or by Python itself."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and is_library(file)


def _slot_names(kind: type) -> Sequence[str]:
    """Return the names in a class's `__slots__`, without dunder names."""
    found = vars(kind).get("__slots__", ())
    names = (found,) if isinstance(found, str) else tuple(found)
    return [name for name in names if not name.startswith("__")]


def kept_by(function: types.FunctionType) -> Mapping[str, Any]:
    """Return the values in a function's closure, by name."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    """Whether a closure's variable has a value."""
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
