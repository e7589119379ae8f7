"""`%hvd` and the options of `%%distribute`, in one real notebook with two real ranks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

# The ranks' servers are the notebook's own here, as a user's are.
pytestmark = [pytest.mark.slow, pytest.mark.own_forks]

IMPORTS = "import numpy as np\nimport tensorflow as tf"
DATA = "x = np.linspace(0, 1, 64, dtype='float32')[:, None]\ny = 3 * x + 1"
MODEL = (
    "model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])\n"
    "model.compile(optimizer=tf.keras.optimizers.SGD(0.1), loss='mse')"
)
FIT = "history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)"


@pytest.fixture(scope="module")
def alone(open_notebook: Any) -> Any:
    """A notebook that has not started any ranks."""
    return open_notebook()


@pytest.fixture(scope="module")
def trained(open_notebook: Any) -> Any:
    """A notebook whose model has been trained on two ranks."""
    notebook = open_notebook()
    for source in (IMPORTS, DATA, MODEL):
        notebook.good(source)
    result = notebook.good(f"%%distribute\n{FIT}")
    assert "ran first: In[1], In[2], In[3]" in result.shown
    return notebook


def complete(notebook: Any, text: str) -> list[str]:
    """What the Tab key offers behind a text."""
    reply = notebook.client.complete(text, reply=True, timeout=30)
    matches: list[str] = reply["content"]["matches"]
    return matches


# Without any ranks


def test_commands_that_need_ranks_say_so(alone: Any) -> None:
    assert "no ranks; a cell with %%distribute starts them" in alone.good("%hvd status").stdout
    assert "no ranks" in alone.good("%hvd").stdout
    assert "no ranks" in alone.good("%hvd stop").stdout
    for command in ("pull a", "restart"):
        result = alone.run(f"%hvd {command}")
        assert "there are no ranks" in result.traceback
        assert "File" not in result.traceback
    alone.good("a = 1")
    assert "there are no ranks" in alone.run("%hvd push a").traceback


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%hvd dance", "invalid choice"),
        ("%hvd pull", "which names?"),
        ("%hvd push", "which names?"),
        ("%hvd push no_such_name", "there is no `no_such_name` in the notebook"),
        ("%hvd push notebooks_own", "cannot be copied between processes"),
        ("%hvd vars", "there are no ranks"),
        ("%%rank 0\n1", "there are no ranks"),
        ("%%rank\n1", "the following arguments are required: RANKS"),
        ("%%rank one\n1", "'one' is neither the number of a rank, nor a range"),
        ("%%rank all\n1", "there are no ranks"),
        ("%%rank ,\n1", "which ranks?"),
    ],
)
def test_wrong_commands(alone: Any, line: str, words: str) -> None:
    alone.good("import threading; notebooks_own = threading.Lock()")
    result = alone.run(line)
    assert words in result.text
    assert "File" not in result.text


def test_help(alone: Any) -> None:
    result = alone.run("%%distribute --help\n1")
    for option in ("-n N", "--hosts", "--show", "--dry-run", "--no-deps", "--timeout"):
        assert option in result.text


def test_dry_run_starts_nothing(alone: Any) -> None:
    for source in (IMPORTS, DATA, MODEL):
        alone.good(source)
    result = alone.good(f"%%distribute --dry-run\n{FIT}")
    assert "would run first: In[" in result.shown
    assert "+import horovod.tensorflow as hvd" in result.shown
    assert "tf.keras.optimizers.SGD(0.1)" in result.shown
    assert alone.processes() == []
    assert "no ranks" in alone.good("%hvd status").stdout
    assert "NameError" in alone.run("print(history)").traceback
    # A cell that has not run binds nothing that a later one could need.
    assert "history" not in alone.good("%%distribute --dry-run\nprint(x.sum())").shown


def test_dry_run_of_what_needs_no_conversion(alone: Any) -> None:
    assert "nothing to convert" in alone.good("%%distribute --dry-run\nprint(1)").shown


# Completion


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        (
            "%hvd ",
            {"status", "where", "vars", "debug", "network"}
            | {"start", "pull", "push", "restart", "stop"},
        ),
        ("%hvd pu", {"pull", "push"}),
        (
            "%%distribute --",
            {"--launcher", "--time", "--partition", "--salloc", "--batch", "--data"}
            | {"--show", "--dry-run", "--no-deps", "--timeout"},
        ),
        ("%%distribute --d", {"--data", "--dry-run"}),
        ("%%distribute -n 2 --s", {"--show", "--salloc"}),
        ("%hvd start --l", {"--launcher"}),
    ],
)
def test_completion(alone: Any, text: str, offered: set[str]) -> None:
    assert set(complete(alone, text)) == offered


@pytest.mark.parametrize("magic", ["%hvd pull ", "%hvd push ", "%hvd pull other ", "%hvd vars "])
def test_completion_of_names(alone: Any, magic: str) -> None:
    alone.good("quite_a_name = 1")
    assert complete(alone, f"{magic}quite_") == ["quite_a_name"]
    assert "quite_a_name" in complete(alone, magic)


# With ranks


@pytest.mark.parametrize(
    ("magic", "text"),
    [
        ("%env SOME_NAME=1", "env: SOME_NAME=1"),
        ("y?", "Docstring"),
        ("%who", "model"),
        ("%pwd", "/"),
        ("%timeit -n1 -r1 1 + 1", "loop"),
    ],
)
@pytest.mark.long
def test_line_magics_print_on_rank_zero(trained: Any, magic: str, text: str) -> None:
    result = trained.good(f"%%distribute\n{magic}")
    assert text in result.text
    assert "[1]" not in result.text


def test_status(trained: Any) -> None:
    head, *rows = trained.good("%hvd status").stdout.splitlines()
    assert head.split() == ["rank", "host", "pid", "device", "memory", "doing"]
    pids = {p.pid for p in trained.processes()}
    for number, row in enumerate(rows):
        rank, _host, pid, device, memory, unit, doing = row.split()
        assert int(rank) == number
        assert int(pid) in pids
        assert (device, unit, doing) == ("CPU", "MB", "idle")
        assert 50 < float(memory) < 5000
    assert len(rows) == 2


def test_ranks_without_work_rest(trained: Any) -> None:
    """Horovod's threads never sleep: ranks that have nothing to do leave it, and join it again for the next cell."""
    trained.good(
        "from jupyter_hvd.notebook import cluster\nrest, cluster.REST_AFTER = cluster.REST_AFTER, 0.5"
    )
    pids = trained.rank_pids()
    trained.good(
        "%%distribute\nimport horovod.tensorflow as hvd, tensorflow as tf, threading, time\n"
        "def look(seen=set()):\n    while len(seen) < 2:\n        seen.add(hvd.is_initialized())\n        time.sleep(0.05)\n"
        "threading.Thread(target=look, daemon=True).start()\n"
    )
    trained.good("cluster.REST_AFTER = rest\nimport time\ntime.sleep(2)")
    result = trained.good(
        "%%distribute\nprint(*look.__defaults__, int(hvd.allreduce(tf.constant(1), op=hvd.Sum)))"
    )
    assert "{False, True} 2" in result.stdout
    assert trained.rank_pids() == pids


def test_push_and_pull(trained: Any) -> None:
    trained.good(
        "table = {'rows': [1, 2.5, 'three'], 'matrix': np.arange(6).reshape(2, 3)}\n"
        "large = np.arange(1_000_000.0)"  # by shared memory
    )
    assert "pushed: table, large" in trained.good("%hvd push table large").shown
    seen = trained.good(
        "%%distribute --no-deps\n"
        "print(table['rows'], table['matrix'].sum(), large.sum())\n"
        "import horovod.tensorflow as horovod\n"
        "mine = [horovod.rank(), horovod.size()]\n"
        "table['rows'].append('on the ranks')"
    )
    assert "[1, 2.5, 'three'] 15 499999500000.0" in seen.stdout
    assert "[1] [1, 2.5, 'three'] 15 499999500000.0" in seen.shown
    trained.good("mine = 'the notebook\\'s'; table = None")
    trained.good("%hvd pull mine table")
    result = trained.good("print(mine, table['rows'], table['matrix'].tolist())")
    assert "[0, 2] [1, 2.5, 'three', 'on the ranks'] [[0, 1, 2], [3, 4, 5]]" in result.stdout


def test_large_arrays_are_shared_until_written_to(trained: Any) -> None:
    trained.good(
        "several = [np.arange(300_001), np.ones(7), np.zeros((0, 3)), np.full(300_000, 2.5)]"
    )
    assert "pushed: several" in trained.good("%hvd push several").shown
    result = trained.good(
        "%%distribute --no-deps\n"
        "import horovod.tensorflow as horovod\n"
        "if horovod.rank() == 0:\n"
        "    several[3][-1] = 0\n"
        "horovod.allreduce(tf.constant(1.0), name='after the write')\n"
        "print([float(one.sum()) for one in several])"
    )
    assert "[45000150000.0, 7.0, 0.0, 749997.5]" in result.stdout
    assert "[1] [45000150000.0, 7.0, 0.0, 750000.0]" in result.shown


def test_what_is_pushed_by_name_arrives(trained: Any) -> None:
    """Even where the notebook cannot know that the ranks have something else by now."""
    trained.good("number = 1")
    for _ in range(2):
        assert "pushed: number" in trained.good("%hvd push number").shown
        assert "1" in trained.good("%%distribute --no-deps\nprint(number)").stdout
        trained.good("%%distribute --no-deps\nglobals()['number'] = 2")


def test_what_is_pushed_by_name_is_used(trained: Any) -> None:
    """Even where a cell could make it again, and where it is too large to be sent unasked."""
    trained.good("made = 'by its cell'\nhuge = np.ones(2**24)  # 128 MB")
    trained.good("get_ipython().user_ns.update(made='by hand', nameless=np.zeros(2**24))")
    refused = trained.run("%%distribute\nprint(nameless.sum())")
    assert "larger than 64 MB" in refused.traceback
    assert "%hvd push nameless" in refused.traceback
    trained.good("%hvd push made huge nameless")
    result = trained.good("%%distribute\nprint(made, huge.sum() == 2**24, nameless.sum())")
    assert "by hand True 0.0" in result.stdout
    assert "ran first" not in result.shown
    # A cell that is run for something else that it makes does not win over what was pushed.
    trained.good("made, other = 'by its cell', 'too'")
    trained.good("get_ipython().user_ns.update(made='by hand')")
    trained.good("%hvd push made")
    result = trained.good("%%distribute\nprint(made, other)")
    assert "by hand too" in result.stdout
    trained.good("made = 'by a new cell'; del huge, nameless")
    assert "by a new cell" in trained.good("%%distribute\nprint(made)").stdout


def test_weights_that_the_notebook_has_changed_are_the_ranks(trained: Any) -> None:
    """Under whatever name it has done so, by a function or a training of its own; they were overwritten by the ranks'."""
    trained.good("def sevens(m):\n    m.set_weights([w * 0 + 7 for w in m.get_weights()])")
    trained.good("other = model")
    trained.good("sevens(other)")
    first = "%%distribute\nprint('has', float(model.get_weights()[0].ravel()[0]))"
    result = trained.good(first)
    assert "has 7.0" in result.stdout
    assert "with the notebook's weights: model" in result.shown
    assert "with the notebook's weights" not in trained.good(first).shown


def test_what_the_notebook_changes_where_no_cell_is_seen_to(trained: Any) -> None:
    """Under another name, or in a function: the ranks went on with what they had, in silence."""
    show = "%%distribute\nprint('has', base.sum(), rate)"
    trained.good("base, rate = np.arange(6.0), 0.5")
    assert "has 15.0 0.5" in trained.good(show).stdout
    trained.good("alias = base")
    trained.good("alias[0] = 100")
    trained.good("def slower():\n    global rate\n    rate = 0.25")
    trained.good("slower()")
    result = trained.good(show)
    assert "has 115.0 0.25" in result.stdout
    assert "pushed: base, rate" in result.shown
    assert "pushed" not in trained.good(show).shown
    # A cell that runs on both sides is no change of the notebook's alone, whatever its functions do.
    trained.good("log = []\ndef note():\n    log.append(np.random.default_rng().normal())")
    trained.good("%%distribute\nnote(); print(len(log))")
    trained.good("note(); noted = True")
    assert "`log`" not in trained.good("%%distribute\nprint(noted, len(log))").shown
    # What the ranks have changed since comes back, and is no change of the notebook's.
    trained.good("%%distribute\nbase += 1")
    assert "pushed" not in trained.good(show).shown


def test_the_notebooks_value_is_the_right_one(trained: Any) -> None:
    """Also of what cells have made otherwise on the ranks, and of a rate that is set under another name."""
    trained.good("fresh = np.arange(4.0)")
    trained.good("again = fresh")
    trained.good("again[0] = 9")
    assert "has 15.0" in trained.good("%%distribute\nprint('has', fresh.sum())").stdout
    trained.good("opt = model.optimizer")
    trained.good("for o in (opt,):\n    o.learning_rate = 0.125")
    rate = "%%distribute\nprint(float(model.optimizer.learning_rate))"
    assert "0.125" in trained.good(rate).stdout


def test_pull_of_weights(trained: Any) -> None:
    """A model is not copied: its weights are set in the notebook's own."""
    trained.good("model.set_weights([w * 0 for w in model.get_weights()]); before = id(model)")
    trained.good("%hvd pull model")
    assert (
        "True True"
        in trained.good("print(id(model) == before, abs(model.get_weights()[0]).max() > 0)").stdout
    )


def test_push_of_weights(trained: Any) -> None:
    trained.good("model.set_weights([w * 0 + 7 for w in model.get_weights()])")
    assert "with the notebook's weights: model" in trained.good("%hvd push model").shown
    shown = trained.good(
        "%%distribute --no-deps\nprint([float(w.sum()) for w in model.get_weights()])"
    )
    assert "[7.0, 7.0]" in shown.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("pull no_such_name", "there is no `no_such_name` on rank 0"),
        ("pull lock", "cannot be copied between processes"),
    ],
)
def test_pull_of_what_cannot_travel(trained: Any, command: str, words: str) -> None:
    trained.good("%%distribute\nimport threading; lock = threading.Lock()")
    result = trained.run(f"%hvd {command}")
    assert words in result.traceback
    assert "File" not in result.traceback


def test_own_horovod_beside_ours(trained: Any) -> None:
    """The user's cell and the conversion both call it `hvd`, and it is not the same module."""
    own = "%%distribute\nimport horovod.tensorflow as hvd\nprint('rank', hvd.rank(), hvd.__name__)"
    assert "[1] rank 1 horovod.tensorflow\n" in trained.good(own).shown + "\n"
    trained.good(f"%%distribute\n{FIT}")
    assert "rank 0 horovod.tensorflow\n" in trained.good(own).stdout


def test_a_name_that_nothing_binds_is_reported(trained: Any) -> None:
    result = trained.run("%%distribute\nmodle.fit(x, y)")
    assert result.error["evalue"] == "name 'modle' is not defined"
    assert "line 2" in result.traceback


def test_show(trained: Any) -> None:
    result = trained.good(
        "%%distribute --show\nmodel.fit(x, y, batch_size=16, verbose=0)\nprint('shown and run')"
    )
    assert "-model.fit(x, y, batch_size=16, verbose=0)" in result.shown
    assert "+model.fit(" in result.shown
    assert "shown and run" in result.stdout


def test_no_deps(trained: Any) -> None:
    trained.good("needed = 'made in a cell'")
    result = trained.run("%%distribute --no-deps\nprint(needed)")
    assert result.error["ename"] == "NameError"
    assert "ran first" not in result.shown
    result = trained.good("%%distribute\nprint(needed)")
    assert "ran first: In[" in result.shown
    assert "made in a cell" in result.stdout


def test_what_lies_between_the_ranks_is_measured(alone: Any, trained: Any) -> None:
    shown = trained.good("%hvd network").stdout
    assert shown.startswith("2 ranks: bandwidth "), shown
    assert shown.count("by these figures") == 6
    ask = "from jupyter_hvd.magics.distribute import measured\nprint(measured(get_ipython()))"
    assert "there are no ranks" in alone.good(ask).stdout


@pytest.mark.long
def test_ranks_begin_where_the_notebook_is(notebook: Any, tmp_path: Path) -> None:
    where = "%%distribute --no-deps\nimport os\nprint(os.getcwd())"
    notebook.good("import os; before = os.getcwd()")
    assert notebook.good(where).stdout.split()[-1] == notebook.good("print(before)").stdout.strip()
    notebook.good(f"os.chdir({str(tmp_path)!r})\n%hvd restart")
    try:
        assert str(tmp_path) in notebook.good(where).stdout
    finally:
        notebook.good("os.chdir(before)\n%hvd restart")


# Looking into the ranks; what these tests change there, the restart below forgets

RANK = "import os; rank = int(os.environ['HOROVOD_RANK'])\n"


def test_a_cell_runs_on_some_ranks_only(trained: Any) -> None:
    assert trained.good(f"%%rank 1\n{RANK}print('this is', rank)").stdout == "this is 1\n"
    both = trained.good(f"%%rank 0,1\n{RANK}print('this is', rank)")
    assert both.stdout == "this is 0\n"
    assert sorted(both.shown.splitlines()) == ["[1] this is 1", "rank 0:"]  # in any order
    for everywhere in ("all", "[0, 1]"):
        assert "[1] 1" in trained.good(f"%%rank {everywhere}\n{RANK}print(rank)").shown
    assert trained.good("%%rank 1\n%env ONLY=there").stdout == "env: ONLY=there\n"
    assert "Wall time" in trained.good("%%rank 0-1\n%%time\nthere = 5").stdout
    assert trained.run("print(there)").error["ename"] == "NameError"


def test_an_error_on_some_ranks_is_reported_in_its_line(trained: Any) -> None:
    pids = trained.rank_pids()
    result = trained.run(f"%%rank 0,1\n{RANK}if rank == 1:\n    raise ValueError('planted')")
    assert "rank 1" in result.traceback
    assert "line 4" in result.traceback
    assert result.error["ename"] == "ValueError"
    assert trained.rank_pids() == pids
    absent = trained.run("%%rank 0,7\nprint('here')")
    assert "there is no rank 7: this notebook has 0 to 1" in absent.traceback
    assert "File" not in absent.traceback
    assert "here" not in absent.stdout
    assert "SyntaxError in this cell, line 2" in plain(trained.run("%%rank 0\n1 +").traceback)


@pytest.mark.parametrize(
    ("planted", "asked", "words"),
    [
        ("numbers[3] = 7", "numbers", ["≠ numbers", "rank 0", "rank 1", "[3]: 7 instead of 3"]),
        ("numbers = numbers[1:]", "numbers", ["int64 (4,) instead of int64 (5,)"]),
        ("del numbers", "numbers", ["rank 1", "not there"]),
        ("floats[2] = np.nan", "floats", ["(1 not finite)", "[2]: nan instead of 2.0"]),
        (
            "found['loss'][1] += 0.5",
            "found",
            ["['loss'][1]: 2.5 instead of 2.0, a difference of 0.5"],
        ),
        (
            "model.layers[0].kernel.assign_add([[0.25]])",
            "model",
            ["kernel[0, 0]", "largest difference 0.25"],
        ),
        (
            "model.optimizer.iterations.assign_add(3)",
            "model.optimizer",
            ["≠ model.optimizer", "sgd/iteration: "],
        ),
        ("thing.epoch = 8", "thing", ["≠ thing.epoch", "8 instead of 7"]),
        ("draws.random()", "draws", ["≠ draws", "other bytes"]),
        ("words = words + 'a'", "words", ["≠ words", "…", "[10000000]: 'a' instead of ''"]),
    ],
)
def test_variables_that_differ_are_marked(
    trained: Any, planted: str, asked: str, words: list[str]
) -> None:
    trained.good(
        "%%rank 0,1\nimport numpy as np\nimport random\n"
        "numbers, floats = np.arange(5), np.arange(5.0)\n"
        "found, words, draws = {'loss': [1.0, 2.0]}, 'x' * 10**7, random.Random(3)\n"
        "class Thing:\n    def __init__(self):\n        self.epoch = 7\n"
        "thing = Thing()"
    )
    trained.good(f"%%rank 1\nkept = [w.numpy() for w in model.weights]\n{planted}")
    told = trained.good(f"%hvd vars {asked}").shown
    for each in words:
        assert each in told
    assert max(map(len, told.splitlines())) < 200
    assert told.splitlines()[1].split() in words_of(trained.good("%hvd vars").shown)
    trained.good("%%rank 1\nfor w, value in zip(model.weights, kept): w.assign(value)")


def test_replicated_variables_are_shown_once(trained: Any) -> None:
    trained.good(
        "%%rank 0,1\nimport time\nsame = np.arange(5)\n"
        "class Slow:\n    def __repr__(self):\n        time.sleep(60)\n"
        "slow = Slow()"
    )
    assert words_of(trained.good("%hvd vars same").shown) == [
        ["variable", "on", "value"],
        ["same", "all", "ranks", "int64", "(5,):", "0,", "1,", "2,", "…"],
    ]
    slow = trained.good("%hvd vars slow")
    assert "takes longer than 1 s" in slow.shown
    assert slow.seconds < 10
    assert "no rank has `absent`" in trained.run("%hvd vars absent same").traceback


@pytest.mark.thorough
def test_a_collective_operation_on_some_ranks_ends(trained: Any) -> None:
    """The ranks that are not asked take no part in it."""
    alone = "import horovod.tensorflow as hvd, tensorflow as tf\nhvd.allreduce(tf.constant(1.0))"
    result = trained.run(f"%%rank 0 --timeout 4\n{alone}")
    assert result.error["ename"] == "TimeoutError"
    assert "rank 0" in result.traceback
    assert trained.good(f"%%distribute\n{FIT}\nprint('trained', len(history.epoch))").stdout


def words_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", text)


@pytest.mark.long
def test_stop_and_restart(trained: Any, after: Any) -> None:
    """Last in this file: it ends the ranks."""
    before = trained.processes()
    trained.good("%%distribute\nstate = 'on the ranks only'")
    old = trained.rank_pids()
    assert "2 ranks ready after" in trained.good("%hvd restart").shown
    assert not set(old) & set(trained.rank_pids())
    # They come from the same servers, which stay.
    kept = [" ".join(process.cmdline()) for process in after(before)]
    assert len(kept) == 2, kept
    assert all("jupyter_hvd.ranks.forkserver" in one for one in kept), kept
    result = trained.run("%%distribute --no-deps\nprint(state)")
    assert result.error["ename"] == "NameError"
    before = trained.processes()
    for _ in range(2):
        assert "no ranks" in trained.good("%hvd stop").stdout
    assert after(before) == []
    assert trained.processes() == []
    assert "no ranks" in trained.good("%hvd status").stdout
    result = trained.good(f"%%distribute -n 1\n{FIT}\nprint('trained', len(history.epoch))")
    assert "1 rank ready after" in result.shown
    assert "trained 2" in result.stdout


def test_a_module_that_a_distributed_cell_imported_is_there_after_a_restart(trained: Any) -> None:
    """New ranks have not run that cell, and a module cannot be copied: they import it"""
    trained.good("import json, os\ndef written(): return json.dumps(os.getpid() > 0)")
    trained.good("%%distribute\nimport json, os")
    trained.good("%hvd restart")
    assert "true" in trained.good("%%distribute\nprint(written())").stdout


# Cell magics above and below one another


@pytest.mark.parametrize(
    "cell",
    [
        "\n%%time\nabove = 1",
        "\n \n%%capture printed\nabove = 1",
        "%%capture printed\n%%time\nabove = 1",
        "%%time\n\n%%capture printed\nabove = !echo 1",
        "%%time?",
        "%%writefile written.txt\n%%time\n'",
    ],
)
def test_later_cells_are_distributed_behind_any_cell_magic(alone: Any, cell: str) -> None:
    alone.run(cell)
    assert "nothing to convert" in alone.good("%%distribute --dry-run\nprint(1)").shown


@pytest.mark.long
def test_cell_magics_under_and_over_distribute(trained: Any) -> None:
    result = trained.good("%%time\n%%distribute\nfound_above = len(x) + 1")
    assert "Wall time" in result.stdout
    assert trained.good("print(found_above)").stdout.strip() == "65"
    trained.good("%%distribute\n%%capture printed\nprint('held back')\nfound_below = len(x) + 2")
    assert trained.good("print(found_below)").stdout.strip() == "66"
