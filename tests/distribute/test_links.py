"""What objects hold otherwise than before, on its way to the other side's objects: no process is started here."""

from __future__ import annotations

import pickle
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jupyter_hvd.notebook.delta import apply_delta
from jupyter_hvd.ranks.snapshot import find_delta, take_snapshot

#: Names that cells bind.
BOUND = ["new", "empty"]
MODULES = {"np": np, "tf": tf, "deque": deque, "SimpleNamespace": SimpleNamespace}


class Trainer:
    count = 0

    def __init__(self, net: Any, note: Any = None) -> None:
        self.net, self.note = net, note


class Net(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.layer = tf.keras.layers.Dense(1)
        self.best, self.log, self.notes = 9.0, [1], {"a": [1]}
        self.compile("sgd", "mse")

    def call(self, x: Any) -> Any:
        return self.layer(x)


def counter() -> Callable[[], int]:
    count = 0

    def up() -> int:
        nonlocal count
        count += 1
        return count

    return up


def make() -> dict[str, Any]:
    """What the same cells make on both sides."""
    a, b = tf.keras.layers.Dense(1), tf.keras.layers.Dense(2)
    made: dict[str, Any] = {"a": a, "b": b, "held": {"a": a, "b": b, "n": 0}, "listed": [a, b]}
    made |= {"pair": {"a": a, "b": b}, "queue": deque([a]), "few": {a}, "by": {a: 1}, "empty": []}
    made |= {"net": Net(), "ones": np.ones((4, 2), "float32")}
    made |= {"ordered": OrderedDict(a=a), "lists": defaultdict(list, k=[a]), "up": counter()}
    return made | {"trainer": Trainer(a), "space": SimpleNamespace(net=a), "kind": Trainer}


def carried(change: Callable[[dict[str, Any]], object]) -> tuple[dict[str, Any], list[str]]:
    """What the notebook has when a cell has made a change on a rank, and what of that stays there."""
    rank, notebook = make(), make()
    names = [*rank]
    before = take_snapshot(rank, names, BOUND)
    change(rank)
    delta = pickle.loads(pickle.dumps(find_delta(before, rank, names, BOUND)))
    done = apply_delta(delta, notebook, [*notebook, *BOUND], names)
    return notebook, [*done.lines]


@pytest.mark.parametrize(
    ("change", "holds"),
    [
        ("held['c'] = held['a']", "held['c'] is a and [*held] == ['a', 'b', 'n', 'c']"),
        ("held.update(c=[a, (b, {'x': a})])", "held['c'][0] is held['c'][1][1]['x'] is a"),
        ("held['n'] += 1", "held['n'] == 1"),
        ("held['n'] = float('nan')", "held['n'] != held['n']"),
        ("del held['b']", "[*held] == ['a', 'n']"),
        ("held['me'] = held", "held['me'] is held"),
        ("pair['a'], pair['b'] = pair['b'], pair['a']", "pair['a'] is b and pair['b'] is a"),
        ("listed.append(a)", "listed[2] is a and listed[1] is b"),
        ("listed.reverse()", "listed[0] is b and listed[1] is a"),
        ("listed.append(3)", "listed[2] == 3"),
        ("listed.clear()", "listed == []"),
        ("queue.appendleft(b)", "queue[0] is b and queue[1] is a and type(queue) is deque"),
        ("few.add(b)", "few == {a, b}"),
        ("by[b] = 2", "by == {a: 1, b: 2}"),
        ("ordered['b'] = b", "ordered['b'] is b"),
        ("lists['k'].append(b)", "lists['k'][1] is b"),
        ("lists['l'].append(b)", "lists['l'][0] is b and lists['m'] == []"),
        ("trainer.best = trainer.net", "trainer.best is a"),
        ("trainer.note = np.ones(3)", "trainer.note.sum() == 3"),
        ("del trainer.note", "not hasattr(trainer, 'note')"),
        ("kind.count += 1", "kind.count == 1"),
        ("space.deep = SimpleNamespace(net=b)", "space.deep.net is b"),
        ("up()", "up() == 2"),
        ("net.best = 0.5", "net.best == 0.5"),
        (
            "net.log.append(2); net.notes['a'].append(3)",
            "net.log == [1, 2] and net.notes == {'a': [1, 3]}",
        ),
        ("net.first = np.ones(2)", "net.first.sum() == 2"),
        ("net.fit(ones, ones[:, :1], verbose=0)", "not net.built and not net.stop_training"),
        ("empty.append(a)", "empty[0] is a"),
        ("new = a", "new is a"),
        ("new = [held, kind(b, 1)]", "new[0] is held and new[1].net is b and new[1].note == 1"),
        ("new = [tf.constant(2.0), np.float32(3)]", "new == [2.0, 3.0]"),
        ("new = [tf.keras.callbacks.History()]", "new[0].history == {}"),
    ],
)
def test_what_is_held_comes_back(change: str, holds: str) -> None:
    found, stays = carried(lambda rank: exec(change, MODULES, rank))
    assert stays == []
    assert eval(holds, MODULES, found)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("held['c'] = tf.keras.layers.Dense(3)", "held['c']: a Dense"),
        ("held['c'] = [a, tf.data.Dataset.range(3)]", "held['c']: a _RangeDataset"),
        ("listed.append(tf.keras.layers.Dense(3))", "listed: a Dense"),
        ("trainer.note = lambda: 1", "trainer.note: a function"),
        ("trainer.note = np.ones(2**18)", "trainer.note: it is larger than 1 MB"),
        ("new = (x for x in [])", "new: a generator"),
    ],
)
def test_what_stays_is_reported(change: str, told: str) -> None:
    found, (stays, *_) = carried(lambda rank: exec(change, MODULES, rank))
    where, why = told.split(": ")
    assert stays.startswith(f"`{where}` in the notebook is not that of the ranks: {why}")
    assert found.keys() == make().keys()


def test_what_is_as_it_was_is_not_sent() -> None:
    rank = make()
    before = take_snapshot(rank, [*rank], [*rank])
    assert [each for each in find_delta(before, rank, [*rank], ["held"]) if each.place] == []


def sums(layer: Any) -> list[float]:
    return [float(weights.sum()) for weights in layer.get_weights()]


@pytest.mark.parametrize(
    ("change", "layer"),
    [
        ("a.build((2,)); a.set_weights([np.ones((2, 1)), np.ones(1)])", "a"),
        ("held['b'].build((2,)); b.set_weights([np.ones((2, 2)), np.ones(2)])", "b"),
        ("by[b] = 1; b.build((2,)); a.build((2,)); a.bias.assign([3.0])", "a"),
        ("pair['a'], pair['b'] = b, a; a.build((2,)); a.bias.assign([3.0])", "a"),
    ],
)
def test_weights_come_back_to_their_counterpart(change: str, layer: str) -> None:
    rank: dict[str, Any] = {}

    def run(namespace: dict[str, Any]) -> None:
        exec(change, MODULES, namespace)
        rank.update(namespace)

    found, stays = carried(run)
    assert stays == []
    assert sums(found[layer]) == sums(rank[layer])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "held['c'] = tf.keras.layers.Dense(3); held['c'].build((2,))",
            [
                "`held['c']` in the notebook is not that of the ranks: a Dense cannot be copied between processes; "
                "make it in an ordinary cell",
                "the weights of `held['c']` stay on the ranks: the notebook has no model or variable there",
            ],
        ),
        (
            "few.add(tf.keras.layers.Dense(3)); [n.build((2,)) for n in few]",
            ["the weights of `few{no. ", "members of a set have no order"],
        ),
    ],
)
def test_weights_that_stay_are_reported(change: str, told: list[str]) -> None:
    _, stays = carried(lambda rank: exec(change, MODULES, rank))
    assert all(any(each in line for line in stays) for each in told), stays


def test_names_of_other_things_are_parted() -> None:
    """What a list holds on the ranks alone, the notebook's list has not: it is another list from then on."""
    rank, notebook = make(), make()
    before = take_snapshot(rank, [*rank])
    rank["listed"].append(tf.keras.layers.Dense(3))
    done = apply_delta(find_delta(before, rank, [*rank]), notebook, [*notebook], [*notebook])
    assert done.diverged == {"listed"}
    assert len(notebook["listed"]) == 2
