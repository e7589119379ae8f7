"""How what has weights is reached from names: no process is started here."""

from __future__ import annotations

import functools
from collections import OrderedDict, UserDict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import nbformat
import numpy as np
import pytest
import tensorflow as tf

from jupyter_hvd.notebook.weights import (
    find_counterparts,
    make_weighted_object,
    outermost_objects,
    same_models,
)
from jupyter_hvd.ranks.paths import AccessPath, own_attributes, weighted_objects
from jupyter_hvd.ranks.serialization import pack_value

V = tf.Variable(1.0)


class Trainer:
    shared: Any = None

    def __init__(self, net: Any) -> None:
        self.net, self.me = net, self

    def train(self) -> Any:
        return self.net


class Slotted:
    __slots__ = ("empty", "net")

    def __init__(self) -> None:
        self.net = V


class Odd:
    @property
    def net(self) -> Any:
        raise AssertionError("properties are the user's own, and may do anything")


class Key:
    pass


def keeps(net: Any) -> Any:
    def step() -> Any:
        return net

    return step


def test_classes_of_libraries_are_not_looked_into() -> None:
    """`tqdm` keeps a lock and a thread in its class, which are no state of the notebook's."""
    assert "net" in own_attributes(Odd)
    assert own_attributes(nbformat.NotebookNode) == {}
    assert own_attributes(ThreadPoolExecutor) == {}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (V, "m"),
        ({"a": 1, "b": V}, "m['b']"),
        ({("a", 1): [0, V]}, "m[('a', 1)][1]"),
        (OrderedDict(a=(V,)), "m['a'][0]"),
        ({Key(): 1, Key(): V}, "m[no. 1]"),
        (namedtuple("Pair", "one two")(1, V), "m[1]"),
        (Trainer(V), "m.net"),
        ([Trainer({"a": V})], "m[0].net['a']"),
        (type("Config", (), {"net": V, "__module__": "mine"}), "m.net"),
        (SimpleNamespace(net=V), "m.net"),
        (UserDict(a=V), "m.data['a']"),
        (frozenset({Trainer(V)}), "m{no. 0}.net"),
        ({V.ref(): 1}, None),
        ({Trainer(V): 1}, "m{key no. 0}.net"),
        (np.array([None, V], dtype=object), "m[(1,)]"),
        (Slotted(), "m.net"),
        (keeps(V), "m(net)"),
        (Trainer(V).train, "m.__self__.net"),
        (functools.partial(max, V), "m.args[0]"),
        (tf.function(keeps(V)), "m.python_function(net)"),
        (Odd(), None),
        (tf.data.Dataset.range(3), None),
        (tf.keras.optimizers.SGD(), None),
    ],
)
def test_what_is_reached(value: Any, path: str | None) -> None:
    found = weighted_objects({"m": value, "x": [1]}, ["m", "x", "absent"])
    assert [str(p) for each in found for p in each.paths] == ([path] if path else [])
    for each in found:
        assert each.paths[0].follow_path({"m": value}) is V is each.value


def test_each_name_and_entry_has_a_path() -> None:
    trainer = Trainer(V)
    trainer.me = {"again": trainer}
    (one,) = weighted_objects({"t": trainer, "m": V, "all": [V, V]}, ["m", "all", "t"])
    assert list(map(str, one.paths)) == ["m", "all[0]", "all[1]", "t.net"]
    assert AccessPath("t").follow_path({}) is None
    assert one.paths[3].follow_path({"t": 3}) is None


def test_members_of_a_set_have_no_place() -> None:
    """One alone is known by being alone; of several none is, but by another name."""
    layer, other = tf.keras.layers.Dense(1), tf.keras.layers.Dense(1)
    here = {"one": {layer}, "two": {layer, other}, "other": other}
    found = {id(each.value): [*map(str, each.paths)] for each in weighted_objects(here, [*here])}
    one, both = found[id(layer)], found[id(other)]
    assert one[0] == "one{no. 0}"
    assert both[1] == "other"
    assert [
        path.is_unordered for each in weighted_objects(here, ["two"]) for path in each.paths
    ] == [True] * 2
    (first, _) = weighted_objects(here, ["two"])
    assert first.paths[0].follow_path(here) is None


def test_counterparts() -> None:
    """Two names for one object on the ranks may be two objects here: what the cell uses is meant."""
    other = tf.Variable(2.0)
    (one,) = weighted_objects({"m": V, "all": [V]}, ["m", "all"])
    here = {"m": V, "all": [other]}
    values = [
        [value for value, _ in find_counterparts(one.paths, here, used)]
        for used in ({"m"}, {"all"})
    ]
    assert values[0][0] is V
    assert values[1][0] is other
    assert find_counterparts(one.paths, {"m": 1, "all": []}, {"m"}) == []
    ((value, paths),) = find_counterparts(one.paths, {"all": [V]}, {"m"})
    assert (value is V, list(map(str, paths))) == (True, ["all[0]"])


def test_parts_of_a_model_travel_with_it() -> None:
    layer = tf.keras.layers.Dense(1)
    model = tf.keras.Sequential([tf.keras.Input((2,)), layer])
    here = {"layer": layer, "kernel": layer.kernel, "model": model, "other": V}
    found = [
        make_weighted_object(r.value, r.paths, here, pack_value(r.value))
        for r in weighted_objects(here, [*here])
    ]
    assert len(found) == 4
    assert [str(each.paths[0]) for each in outermost_objects(found)][-1] == "other"
    assert len(outermost_objects(found)) == 2


def test_names_for_the_same_models() -> None:
    layer = tf.keras.layers.Dense(1)  # not built: it has no weights yet
    here = {"layer": layer, "model": tf.keras.Sequential([layer]), "x": 1, "other": V}
    here |= {"models": {"a": here["model"]}, "mine": Trainer(layer)}
    found = same_models(here, [*here])
    assert found.keys() == {"layer", "model", "other", "models"}
    assert found["layer"] == found["models"] == {"layer", "model", "models"}
    assert found["other"] == {"other"}
