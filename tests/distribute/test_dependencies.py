"""Which earlier cells a cell needs: no process is started here."""

from __future__ import annotations

import pytest

from jupyter_hvd.convert.rules.base import Batch
from jupyter_hvd.convert.rules.options import Options
from jupyter_hvd.notebook.cell_names import names_of
from jupyter_hvd.notebook.dependencies import Cell, Needs, find_needs
from jupyter_hvd.notebook.errors import DistributeError
from jupyter_hvd.notebook.planning import CellPlan, RanksState, find_recovery, plan_cell
from jupyter_hvd.notebook.program import masked


def plan(
    *sources: str,
    on_ranks: tuple[int, ...] = (),
    values: tuple[str, ...] = (),
    given: dict[str, int] | None = None,
) -> Needs:
    """The needs of the last of some cells, which are numbered from 1."""
    cells = [Cell(number, source) for number, source in enumerate(sources, 1)]
    return find_needs(cells[:-1], cells[-1], on_ranks, values.__contains__, given or {})


def again(*sources: str, on_ranks: tuple[int, ...], again: tuple[int, ...]) -> Needs:
    """The same, where some cells are to run again."""
    cells = [Cell(number, source) for number, source in enumerate(sources, 1)]
    return find_needs(cells[:-1], cells[-1], on_ranks, again=again)


def test_imports_functions_and_data_are_needed_and_nothing_else() -> None:
    found = plan(
        "import numpy as np",
        "x = np.ones(3)",
        "print('hello')",
        "def f(v):\n    return v * scale",
        "scale = 2",
        "unused = 5",
        "f(x)",
    )
    assert found.run == (1, 2, 4, 5)
    assert found.push == frozenset()


def test_a_function_looks_its_names_up_when_it_is_called() -> None:
    assert plan("def f(): return a", "a = 1", "a = 2", "f()").run == (1, 3)


def test_what_a_function_uses_may_be_bound_again_after_its_own_cell() -> None:
    assert plan("a = 1\ndef f(): return a", "a = 2", "f()").run == (1, 2)
    assert plan("a = 1", "def f(): return a\na = 2\nf()").run == ()


def test_a_cell_that_calls_its_own_function_needs_what_that_uses_then() -> None:
    assert plan("a = 1", "def f(): return a\nb = f()", "b").run == (1, 2)


def test_cells_that_change_an_object_belong_to_it() -> None:
    found = plan("m = make()", "m.add(1)", "m.summary()", "m.rate = 3", "m[0] = 1", "m")
    assert found.run == (1, 2, 4, 5)


def test_changes_through_a_loop_variable() -> None:
    source = "for layer in base.layers[:-4]:\n    layer.trainable = False"
    assert plan("base = make()", source, "base").run == (1, 2)


@pytest.mark.parametrize(
    "source",
    [
        "for m in models.values():\n    m.compile('sgd')",
        "for name, m in models.items():\n    m.compile('sgd')",
        "for i, (name, m) in enumerate(models.items()):\n    m.rate = i",
        "for m in [models['a'], other]:\n    m.compile('sgd')",
        "for m in list(models.values()) + [other]:\n    m.compile('sgd')",
        "for m in [each for each in models.values() if each]:\n    m.compile('sgd')",
        "for layer in models['a'].layers[1:]:\n    layer.trainable = False",
        "for k, layer in enumerate(models['a'].layers):\n    layer.trainable = k > 2",
        "[m.compile('sgd') for m in models.values()]",
        "found = list(models.values())\nfound[0].compile('sgd')",
        "models.get('a').compile('sgd')",
        "next(iter(models.values())).compile('sgd')",
        "m, *_ = models.values()\nm.compile('sgd')",
        "(models['a'] if other else other).compile('sgd')",
    ],
)
def test_changes_of_what_a_container_holds(source: str) -> None:
    assert names_of(source).changes >= {"models"}
    assert plan("models, other = make()", source, "models").run == (1, 2)


def test_changes_by_another_name_for_the_same_models() -> None:
    """A layer of a model, and a container of models: what is done to them is done to the model."""
    sources = ("base = make()", "model = build(base)", "base.trainable = False", "model")
    cells = [Cell(number, source) for number, source in enumerate(sources, 1)]
    both = frozenset({"base", "model"})
    assert find_needs(cells[:-1], cells[-1], same=lambda _: both).run == (1, 2, 3)
    assert find_needs(cells[:-1], cells[-1], (1, 2, 3), same=lambda _: both).run == ()
    assert find_needs(cells[:-1], cells[-1]).run == (1, 2)


@pytest.mark.parametrize("call", ["freeze(a)", "freeze(net=a)", "for m in [a]:\n    freeze(m)"])
def test_changes_by_a_function_that_is_handed_a_model(call: str) -> None:
    function = (
        "def freeze(net, k=0):\n    for layer in net.layers[k:]:\n        layer.trainable = False"
    )
    assert plan("a = make()", function, call, "a").run == (1, 2, 3)
    other = function.replace("layer.trainable = False", "print(layer)")
    assert plan("a = make()", other, call, "a").run == (1,)
    trains = f"{function}\n    net.fit(x)"
    assert plan("a = make()", trains, call, "a").run == (1,)
    reweighted_names = "def freeze(net):\n    net.set_weights([1])"
    assert plan("a = make()", reweighted_names, call, "a").run == (1,)
    assert plan("a = make()", "b = 1", function, call.replace("a", "b", 1), "b").run[-1] == 4


@pytest.mark.parametrize(
    "call", ["add()", "add(); add()", "count = add()", "for i in range(2):\n    add()"]
)
def test_changes_by_a_function_of_what_it_knows_of(call: str) -> None:
    """Of what can be copied the notebook's value is compared with the ranks': a cell need not run there for that."""
    function = "def add():\n    nets.append(build())\n    return len(nets)"
    sources = ("nets, build = make()", function, call, "nets")
    assert plan(*sources).run == (1, 2, 3)
    assert plan(*sources, values=("nets",)).run == (1,)
    trains = function.replace("return", "nets[0].fit(x)\n    return")
    assert plan(sources[0], trains, call, "nets").run == (1,)


def test_a_new_container_is_not_what_it_holds() -> None:
    """A cell that trains is not run on the ranks because it sorts, and cuts, what they need."""
    sources = (
        "names = sorted(table)\nnames.append('x')",
        "names = [n for n in table]\nnames[0] = 'x'",
        "names = same = list(table)\nsame.append('x')",
    )
    assert [names_of(source).changes for source in sources] == [frozenset()] * 3
    assert names_of("[table.add(n) for n in other]").changes == {"table"}


def test_changes_in_functions_by_another_name() -> None:
    source = "def prepare():\n    for m in models.values():\n        m.compile('sgd')"
    assert names_of(source).changes_later == {"models"}


def test_cells_that_train_or_draw_are_left_out() -> None:
    found = plan(
        "import matplotlib.pyplot as plt",
        "model = make()",
        "model.fit(1)",
        "plt.plot([1])\nplt.show()",
        "model, plt",
    )
    assert found.run == (1, 2)


def test_what_the_user_has_pushed_is_not_made_again() -> None:
    cells = ("a = load()", "pushed", "a.sort()", "a")
    assert plan(*cells).run == (1, 3)
    assert plan(*cells, given={"a": 2}).run == (3,)
    assert plan(*cells, given={"a": 3}).run == ()
    assert plan("pushed", "a", values=("a",), given={"a": 1}).push == frozenset()
    assert plan("pushed", "a = load()", "a", given={"a": 1}).run == (2,)


def test_a_cell_that_trains_and_binds_what_is_needed_is_run() -> None:
    assert plan("model = make()", "history = model.fit(1)", "history").run == (1, 2)


def test_seeds_and_settings_belong_to_their_module() -> None:
    found = plan("import numpy as np", "np.random.seed(1)", "np.random.rand()", "np.ones(1)")
    assert found.run == (1, 2)


def test_what_is_on_the_ranks_is_not_run_again() -> None:
    found = plan("a = 1", "b = a", "b", on_ranks=(1, 2))
    assert found.run == ()
    assert found.cells == (1, 2)


def test_a_cell_executed_again_is_sent_again() -> None:
    assert plan("a = 1", "b = 2", "a = 3", "a + b", on_ranks=(1, 2)).run == (3,)


def test_a_cell_sent_late_sees_the_names_of_its_own_time() -> None:
    # Cell 3 was executed when a was 1; on the ranks a is 2 by now.
    found = plan("a = 1", "z = 0", "b = a", "a = 2", "a + b", on_ranks=(4,))
    assert found.run == (1, 3, 4)


def test_values_that_no_cell_can_rebuild_are_pushed() -> None:
    found = plan("key = input()", "key, other, unknown", values=("key", "other"))
    assert found.run == ()
    assert found.push == {"key", "other"}


def test_what_only_lost_ranks_computed_is_pushed_where_the_notebook_has_it() -> None:
    cells = [Cell(1, "a = 1"), Cell(2, "losses = train(a)", distributed=True)]
    found = find_needs(cells, Cell(3, "losses"), (), {"losses"}.__contains__)
    assert not found.run
    assert found.push == {"losses"}
    assert find_needs(cells, Cell(3, "losses"), (), set().__contains__).run == (1, 2)


DOUBLED = ("y = load()", "y = y * 2\nz = 1")


def test_what_a_cell_makes_of_what_was_there_is_made_once() -> None:
    """A cell that begins from what it changes runs again with the cells that have made that, or does not."""
    assert plan(*DOUBLED, "y, z", on_ranks=(1, 2)).run == ()
    assert again(*DOUBLED, "z", on_ranks=(1, 2), again=(2,)).run == (1, 2)
    added = ("log = []", "log.append(1)\nz = 1", "log.append(2)", "log, z")
    assert again(*added, on_ranks=(1, 2, 3), again=(2,)).run == (1, 2, 3)
    assert again("a = []", "a += [1]", "a", on_ranks=(1, 2), again=(2,)).run == (1, 2)


def test_a_long_chain_of_cells() -> None:
    assert len(plan("y = load()", *["y = y * 2"] * 400, "y").run) == 401


def test_what_the_notebook_has_doubled_is_not_doubled_again_on_the_ranks() -> None:
    """Where no cell makes what a cell begins from, the notebook's value is that of after it."""
    typed = ("y = float(input())", DOUBLED[1])
    found = plan(*typed, "y, z", values=("y", "z"))
    assert (found.run, found.push, found.lost) == ((), {"y", "z"}, ())
    found = plan(DOUBLED[1], "y", values=("y", "z"))  # no cell is seen to make it
    assert (found.run, found.push) == ((), {"y"})
    ran = [Cell(1, "y = 1", distributed=True), Cell(2, DOUBLED[1])]  # on ranks that have gone
    found = find_needs(ran, Cell(3, "y"), (), {"y", "z"}.__contains__)
    assert (found.run, found.push) == ((), {"y"})
    # A cell that came before the change sees what was there then, and runs on what is there only where that is the same.
    assert plan("y = float(input())", "z = y + 1", "z", values=("y", "z")).run == (2,)
    found = plan("y = float(input())", "z = y + 1", "y = y * 2", "z, y", values=("y", "z"))
    assert (found.run, found.push) == ((), {"y", "z"})


def test_what_can_be_made_by_no_cell_and_not_be_pushed_is_reported() -> None:
    cells = [Cell(1, "y = float(input())"), Cell(2, "y = y * 2\ndata = make(y)")]
    named = {"y", "data"}.__contains__
    found = find_needs(cells, Cell(3, "data"), (), named, copies={"y"}.__contains__)
    assert found.lost == ((2, "y"),)
    # Functions look their names up when they are called: what comes later is no change of what was there.
    later = [Cell(1, "def f(): return y"), Cell(2, "step = f"), Cell(3, "y = 1")]
    found = find_needs(later, Cell(4, "step()"), (), {"y"}.__contains__, copies=lambda _: False)
    assert (found.run, found.lost, found.push) == ((1, 2, 3), (), frozenset())


def test_what_is_pushed_is_not_what_an_earlier_cell_began_from() -> None:
    assert plan(*DOUBLED, "pushed", "z", given={"y": 3}).run == (1, 2)
    assert plan(*DOUBLED, "pushed", "y", given={"y": 3}).run == ()
    assert plan("y = load()", "z = y", "pushed", "z", given={"y": 3}).run == (2,)


def test_what_trainings_have_added_is_not_made_by_training_again() -> None:
    """The cell that begins a list runs again: what was added on the ranks since, the notebook has got back."""
    cells = [Cell(1, "log = []\nz = 1"), Cell(2, "log.append(train())", distributed=True)]
    found = find_needs(cells, Cell(3, "log, z"), (1, 2), {"log"}.__contains__, again=(1,))
    assert (found.run, found.push) == ((1,), {"log"})


def test_star_imports_may_bind_anything() -> None:
    assert plan("from math import *", "y = 1", "sqrt(2)").run == (1,)


def test_a_cell_that_gives_other_weights_is_not_run_for_that() -> None:
    """The notebook's weights travel; run on the ranks, it would set what they have in another place, and write files there."""
    cells = [
        Cell(1, "model = make()"),
        Cell(2, "model.save_weights('w'); model.set_weights(best)"),
        Cell(3, "model.set_weights(best); model.compile('sgd')"),
    ]
    current = Cell(4, "print(model.get_weights())", True)
    assert find_needs(cells[:2], current, travels={"model"}.__contains__).run == (1,)
    assert find_needs(cells[:2], current).run == (1, 2)
    assert find_needs(cells, current, travels={"model"}.__contains__).run == (1, 3)


def test_names_that_the_cell_changes() -> None:
    found = plan("log = []", "def step():\n    log.append(1)", "step()\nlast = log[-1]")
    assert found.changed >= {"log", "last"}


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("x = 1\nx", set()),
        ("x = x + 1", {"x"}),
        ("x += 1", {"x"}),
        ("[i for i in xs if i > t]", {"xs", "t"}),
        ("for i in xs:\n    last = i\nprint(last)", {"xs"}),
        ("if a:\n    b = 1\nb", {"a", "b"}),
        ("with open(p) as f:\n    f.read()", {"p"}),
        ("lambda q: q + w", {"w"}),
        ("class A(B):\n    c = d\n    def m(self): return e", {"B", "d"}),
        ("@deco\ndef f(a=default): pass", {"deco", "default"}),
        ("try:\n    import a\nexcept E as e:\n    a = None", {"E"}),
        ("(n := 3)\nn", set()),
        ("f'{a} {b!r:{c}}'", {"a", "b", "c"}),
        ("print('%s' % a, end=z)", {"a", "z"}),
        ("not python at all", set()),
    ],
)
def test_uses(source: str, uses: set[str]) -> None:
    assert names_of(source).uses - {"print", "open"} == uses


def test_what_ranks_re_create_that_were_broken_off() -> None:
    """Cells that make data, and those that have changed them, but none that has trained or makes a model too."""
    sources = ("data = load()", "data[0] = 1", "both = load(); model = make()", "other = load()")
    cells = [Cell(number, source) for number, source in enumerate(sources, 1)]
    cells += [Cell(5, "drawn = load()", distributed=True), Cell(6, "mine = load()")]
    state = RanksState(ran=(1, 2, 3, 4, 5))
    diverged = {"data", "both", "drawn", "mine"}
    again, left = find_recovery(state, cells, diverged, {"model"})
    assert (again, left) == ({1, 2}, {"both", "drawn"})
    state = state.without_cells(again)
    assert find_needs(cells, Cell(7, "data, other"), state.ran, again=state.again).run == (1, 2)
    # What is made anew beside them begins from what it began from.
    cells = [Cell(1, "y = load()"), Cell(2, "y = y * 2\nlog = []")]
    again, left = find_recovery(RanksState(ran=(1, 2)), cells, {"log"}, frozenset())
    assert (again, left) == ({2}, frozenset())
    state = RanksState(ran=(1, 2)).without_cells(again)
    assert find_needs(cells, Cell(3, "log"), state.ran, again=state.again).run == (1, 2)


IMPORTS = "import tensorflow as tf"
DATA = "data = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)"
STEP = """
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)

def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss
"""
LOOP = "for batch in data:\n    step(batch)"


def planned(
    *sources: str, plain: int = 0, batch: Batch = "per-rank", runs_horovod: bool = True
) -> list[CellPlan]:
    """The plans of cells that are run one after the other, each on the ranks but for the first, which are so many."""
    texts = {n: s if n <= plain else f"%%distribute\n{s}" for n, s in enumerate(sources, 1)}
    history = [Cell(n, masked(text), n > plain) for n, text in texts.items()]
    state, plans = RanksState(), list[CellPlan]()
    for n, text in [*texts.items()][plain:]:
        options = Options(open_ended=True, standalone=False, batch=batch)
        plans.append(
            plan_cell(
                n,
                text,
                history[: n - 1],
                texts,
                state,
                lambda _: False,
                options,
                runs_horovod=runs_horovod,
            )
        )
        trained = "step(batch)" in text or "fit(" in text
        state = state.after_cells(plans[-1].shown_cells, plans[-1].program, trained)
    return plans


def test_data_that_were_made_before_training_was_in_sight_are_scaled() -> None:
    *_, last = planned(IMPORTS, DATA, STEP, LOOP)
    assert last.needs.run == (2, 3)  # which the data, and what came after them, are made by
    assert "* hvd.size()" in last.program.converted[2]
    assert last.outdated == ()
    assert planned(IMPORTS, DATA, STEP, LOOP, LOOP)[-1].needs.run == ()


def test_what_was_changed_before_training_was_in_sight_is_changed_once() -> None:
    """The cell that doubles the labels and divides them runs again, converted, and on labels that are made anew."""
    labels = "labels = load()"
    doubled = "labels = labels * 2\ndata = tf.data.Dataset.from_tensor_slices(labels).batch(8)"
    *_, first, last = planned(IMPORTS, labels, doubled, STEP, "print(len(data))", LOOP, plain=4)
    assert first.needs.run == (1, 2, 3)
    assert last.needs.run == (1, 2, 3, 4)


def test_what_has_trained_is_not_made_again_for_that() -> None:
    other = DATA.replace("data =", "other =")
    *_, last = planned(IMPORTS, f"{DATA}\n{other}", STEP, LOOP, LOOP.replace("data", "other"))
    assert last.needs.run == ()
    assert last.outdated == (2,)


KERAS = (
    "import tensorflow as tf",
    "x, y = tf.ones((64, 4)), tf.ones((64, 1))",
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])",
    "model.compile('sgd', loss='mse')",
)
FIT, EVALUATE, AGAIN = (
    "model.fit(x, y)",
    "model.evaluate(x, y)",
    "model.compile('adam', loss='mse')",
)


@pytest.mark.parametrize("plain", [0, 4])
def test_what_is_asked_between_two_trainings_undoes_neither(plain: int) -> None:
    """Without training in sight nothing is converted: what was for it stays as it is."""
    plans = planned(*KERAS, FIT, EVALUATE, FIT, AGAIN, FIT, plain=plain)[-5:]
    assert [plan.needs.run for plan in plans] == [(1, 2, 3, 4), (), (), (), (8,)]
    assert not any(plan.outdated for plan in plans)
    assert "DistributedOptimizer" in plans[-1].program.converted[8]


def test_a_cell_with_horovod_of_its_own_sends_nothing_again() -> None:
    """Its program is not converted, and so are the cells that it needs, which have trained converted."""
    log = KERAS[3] + "\nlog = []"
    fit = "log.append(model.fit(x, y).history)"
    own = "import horovod.tensorflow as hvd\nprint(hvd.rank(), log)"
    plans = planned(*KERAS[:3], log, fit, own, fit, plain=4)
    assert [plan.needs.run for plan in plans] == [(1, 2, 3, 4), (), ()]
    assert not any(plan.outdated for plan in plans)


def test_after_a_training_what_has_not_changed_stays() -> None:
    """What a later training imports is there since the first."""
    imports = f"{IMPORTS}\nimport numpy as np"
    drawn = "for turn in range(4):\n    step(tf.gather(tf.ones((64, 4)), np.random.choice(64, 8)))"
    plans = planned(imports, DATA, STEP, LOOP, drawn, plain=3)
    assert [plan.needs.run for plan in plans] == [(1, 2, 3), ()]


def test_ranks_that_share_each_batch_run_cells_as_they_are() -> None:
    plans = planned(IMPORTS, DATA, STEP, LOOP, plain=2, batch="global")
    assert plans[-1].needs.run == (2,)
    for plan in plans:
        assert plan.program.converted == plan.program.sources
        assert plan.program.diagnostics == []
        assert plan.compares


def test_only_ranks_that_share_nothing_run_cells_for_horovod() -> None:
    own = "import horovod.tensorflow as hvd\nfrom mine import model, x, y\nmodel.fit(x, y)"
    with pytest.raises(DistributeError, match=r"(?s)HVD901.*%hvd stop"):
        planned(own, runs_horovod=False)
    assert planned(own)[0].program.uses_horovod
