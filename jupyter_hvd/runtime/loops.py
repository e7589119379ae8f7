"""A loop of the program's own, which goes on where it was when its job is started again."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from .process import _agreed
from .restarts import _following, _inner, _rate
from .weights import _variables

#: Numbers the loops, as often as the program is started.
_loops: Any = itertools.count()
#: How much longer than to keep a state the turns before take, at the least: keeping costs 2 % at the most.
_TURNS_TO_KEEPING: int = 50
#: From the number of a scope, by names, keys, places and attributes to a value.
_Way = tuple[Any, ...]
#: Names of IPython's, in a notebook.
_OF_THE_SHELL: tuple[str, ...] = ("In", "Out", "exit", "quit")


def resumed_loop(turns: Iterable[Any], *names: dict[str, Any]) -> Iterable[Any]:
    """The turns of a loop that trains; where its job is started again, those that come after what was kept.

    `jupyter hvd run --restarts` and `--elastic` name the folder in which rank 0 keeps, after turns, what the program has by
    these names: the variables of models, optimizers and metrics, and the data that have changed since the loop began, also
    those of objects of the program's own classes. Without such a folder these are the turns themselves. How many turns lie
    between follows from how long they take, and keeping: that takes 2 % of the time at the most.

    Where models or optimizers are only made in a turn, one that was done is done again to make them. With `--batch global` all
    turns are computed again, for random numbers and the order of data are not kept.

    Args:
        names: `globals()`, and in a function `locals()` too, whose names cannot be bound anew, but what they have can be changed.

    Raises:
        RuntimeError: what was kept is of another program.
    """
    import os
    from pathlib import Path

    folder = os.environ.get("JUPYTER_HVD_STATE")
    if not folder or os.environ.get("JUPYTER_HVD_RESUME") == "1":
        return turns
    return _resumed(turns, names, Path(folder) / f"loop-{next(_loops)}.pickle")


def _resumed(turns: Any, names: tuple[dict[str, Any], ...], file: Any) -> Iterator[Any]:
    import time

    import horovod.tensorflow as hvd

    of = _length(turns)
    begun = _state(names)
    rates = {path: _rate(each) for path, each in begun["trained"].items() if _is_optimizer(each)}
    marks = {path: _mark(value) for path, value in begun["data"].items()}
    kept = hvd.broadcast_object(_read_state(file) if hvd.rank() == 0 else None, root_rank=0)
    start = _turns_done(kept, turns, of)
    waits = kept is not None and not _take_up(kept, names, rates)
    if kept is not None and hvd.rank() == 0:
        whole = "" if of is None else f" of {of}"
        print(f"the loop goes on after turn {start}{whole}", flush=True)

    def keep(number: int) -> None:
        if hvd.rank() == 0:
            state = _state(names)
            trained = _without_repeats(state["trained"])
            own = {p: rates.get(p, _rate(e)) for p, e in trained.items() if _is_optimizer(e)}
            data = {p: v for p, v in state["data"].items() if marks.get(p) != _mark(v)}
            arrays = {p: [v.numpy() for v in _variables_of(e)] for p, e in trained.items()}
            about = {"turn": number, "of": of, "size": hvd.size(), "rates": own}
            _write_state(file, {**about, "trained": arrays, "data": data})

    number, due, since, before, agreeing = start, start + 1, time.monotonic(), start, 0.0
    for place, turn in enumerate(turns):
        if place < start - waits:
            continue
        if waits:
            yield turn
            if not _take_up(kept, names, rates):
                raise RuntimeError(
                    "this loop trains other models than it did when the job was interrupted: what was kept does not fit"
                )
            waits, since = False, time.monotonic()
            if start:
                continue
        yield turn
        number = place + 1
        if number < due:
            continue
        reached = time.monotonic()
        keep(number)
        has_kept = time.monotonic()
        took, each = has_kept - reached + agreeing, (reached - since) / (number - before)
        pause = max(1, min(10_000, round(_TURNS_TO_KEEPING * took / max(each, 1e-6))))
        due, before = number + _agreed(file, pause), number
        since = time.monotonic()
        agreeing = since - has_kept
    if number > before:
        keep(number)


def _length(turns: Any) -> int | None:
    try:
        return len(turns)
    except TypeError:
        return None


def _turns_done(kept: Any, turns: Any, of: int | None) -> int:
    """How many of these turns are done, when those of another number of ranks, perhaps, were."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    if kept is None:
        return 0
    if of and kept["of"]:
        return int(kept["turn"] * of // kept["of"])
    if isinstance(turns, tf.data.Dataset):  # this rank's share
        return int(kept["turn"] * kept["size"] // hvd.size())
    return int(kept["turn"])


def _state(names: tuple[dict[str, Any], ...]) -> dict[str, dict[_Way, Any]]:
    """What the program has by these names, by the way to it: what is "trained", and "data"."""
    found: dict[str, dict[_Way, Any]] = {"trained": {}, "data": {}}
    seen: set[int] = set()
    for scope, space in enumerate(names):
        for name, value in list(space.items()):
            if not name.startswith("_") and name not in _OF_THE_SHELL:
                _look_at(value, (scope, name), found, seen)
    return found


def _look_at(value: Any, way: _Way, found: dict[str, dict[_Way, Any]], seen: set[int]) -> None:
    if _is_plain(value):
        found["data"][way] = value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, (list, tuple)):
        inner = list(enumerate(value))
    elif isinstance(value, dict):
        inner = list(value.items())
    else:
        if _is_trained(value):
            found["trained"][way] = value
            inner = [("optimizer", getattr(value, "optimizer", None))]
        if type(value).__module__ == "__main__":
            own = getattr(value, "__dict__", {})
            inner += [(k, v) for k, v in own.items() if k != "built" and not k.startswith("_")]
    for name, each in inner:
        if each is not None or not _is_trained(value):
            _look_at(each, (*way, name), found, seen)


def _is_trained(value: Any) -> bool:
    """Whether a value has variables: a model, layer, optimizer, metric, a variable itself, or a generator of random numbers."""
    import tensorflow as tf

    keras = tf.keras.layers.Layer, tf.keras.metrics.Metric
    if isinstance(value, (tf.Module, tf.Variable, tf.random.Generator, *keras)):
        return True
    return _is_optimizer(value) or (hasattr(value, "assign") and hasattr(value, "value"))


def _without_repeats(trained: dict[_Way, Any]) -> dict[_Way, Any]:
    """What has variables that none of the larger ones has: a model, but not a layer of it."""
    variables = {way: [id(v) for v in _variables_of(each)] for way, each in trained.items()}
    known: set[int] = set()
    kept = set()
    for way in sorted(variables, key=lambda way: -len(variables[way])):
        if not known.issuperset(variables[way]):
            kept.add(way)
            known.update(variables[way])
    return {way: each for way, each in trained.items() if way in kept}


def _is_optimizer(value: Any) -> bool:
    return hasattr(value, "apply_gradients") and hasattr(value, "get_config")


def _is_plain(value: Any) -> bool:
    """Whether a value is data, and nothing but data."""
    import collections

    import numpy as np
    import tensorflow as tf

    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype != object)
    if type(value) in (list, tuple, set, frozenset, collections.deque):
        return all(map(_is_plain, value))
    if type(value) in (dict, collections.Counter):
        return all(_is_plain(each) for pair in value.items() for each in pair)
    has_numbers = isinstance(value, tf.Tensor) and hasattr(value, "numpy")
    return has_numbers and bool(value.dtype.is_numpy_compatible)


def _mark(value: Any) -> bytes:
    """What tells data from others."""
    import hashlib
    import pickle

    import numpy as np

    if isinstance(value, np.ndarray):
        about = f"{value.dtype} {value.shape}".encode()
        content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return hashlib.blake2b(content.data, key=about[:64]).digest()
    return hashlib.blake2b(pickle.dumps(value)).digest()


def _variables_of(owner: Any) -> list[Any]:
    """TensorFlow's variables of what is trained; none of what is not built yet."""
    import tensorflow as tf

    if isinstance(owner, tf.random.Generator):
        return [owner.state]
    try:
        return _variables(owner)
    except ValueError:
        return []


def _take_up(kept: Any, names: tuple[dict[str, Any], ...], rates: dict[_Way, Any]) -> bool:
    """Give the program what was kept, if it has what that belongs to."""
    import contextlib

    import numpy as np

    trained = _state(names)["trained"]
    if not {*kept["trained"]} <= {*trained}:
        return False
    for way, arrays in kept["trained"].items():
        if _is_optimizer(trained[way]):
            _build(trained[way], arrays, trained.values())
        shapes = [tuple(variable.shape) for variable in _variables_of(trained[way])]
        if shapes != [np.shape(array) for array in arrays]:
            return False
    for way, arrays in kept["trained"].items():
        owner = trained[way]
        follows: Any = contextlib.nullcontext()
        if _is_optimizer(owner):
            rate = rates.get(way, _rate(owner))
            follows = _following(owner, rate, kept["rates"].get(way), kept["size"])
        with follows:
            for variable, array in zip(_variables_of(owner), arrays, strict=True):
                variable.assign(array)
    for way, value in kept["data"].items():
        _put(names, way, value)
    return True


def _build(optimizer: Any, arrays: list[Any], owners: Iterable[Any]) -> None:
    """Build an optimizer that has no state yet for the one model whose weights its kept state is of."""
    import numpy as np

    inner = _inner(optimizer)
    if getattr(inner, "built", True) or not hasattr(inner, "build"):
        return
    state = sorted(np.shape(array) for array in arrays if np.ndim(array))
    fitting = []
    for owner in owners:
        weights = getattr(owner, "trainable_variables", ()) if _is_trained(owner) else ()
        shapes = [tuple(weight.shape) for weight in weights if len(weight.shape)]
        if shapes and state == sorted(shapes * (len(state) // len(shapes))):
            fitting.append(weights)
    if len(fitting) == 1:
        inner.build(fitting[0])


def _put(names: tuple[dict[str, Any], ...], way: _Way, value: Any) -> None:
    """Put data where they were; what the program has there already is changed, since it may have other names too."""
    import collections

    import numpy as np

    owner: Any = names
    for name in way[:-1]:
        owner = _part(owner, name)
    name, found = way[-1], _part(owner, way[-1])
    if isinstance(found, np.ndarray) and np.shape(value) == found.shape and found.flags.writeable:
        found[...] = value
    elif type(found) is type(value) and isinstance(found, list):
        found[:] = value
    elif type(found) is type(value) and isinstance(found, (dict, set, collections.deque)):
        found.clear()
        found.extend(value) if isinstance(found, collections.deque) else found.update(value)
    elif isinstance(owner, dict):
        owner[name] = value
    elif isinstance(owner, list):
        owner[name : name + 1] = [value]
    elif owner is not None and not isinstance(owner, tuple):
        setattr(owner, name, value)


def _part(owner: Any, name: Any) -> Any:
    if isinstance(owner, dict):
        return owner.get(name)
    if isinstance(owner, (list, tuple)):
        return owner[name] if name < len(owner) else None
    return getattr(owner, name, None)


def _read_state(file: Any) -> Any:
    """What was kept; it lies in a folder of this user's own, whose ranks alone have written it."""
    import pickle

    return pickle.loads(file.read_bytes()) if file.exists() else None  # noqa: S301


def _write_state(file: Any, state: Any) -> None:
    """Write a state, so that the old or the new one is there, whole, whenever the job is interrupted."""
    import pickle

    new = file.with_suffix(".new")
    new.write_bytes(pickle.dumps(state))
    new.replace(file)
