"""What changes need is in the program, and nothing else, whichever of them are made; both forms of it."""

from __future__ import annotations

import ast
import builtins
import symtable
from pathlib import Path

import libcst.matchers as m
import pytest

from jupyter_hvd import Options, convert_source, runtime
from jupyter_hvd.convert import Change
from jupyter_hvd.rules.tensorflow_horovod.standalone import definitions
from jupyter_hvd.source.edits import Layer, apply_edits

from ..suite import FOLDER, PROGRAMS

CONVERTED = [program.path for program in PROGRAMS if not program.is_refused]
FORMS = (Options(), Options(standalone=True))
FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
"""


def made(source: str, changes: tuple[Change, ...], taken: set[int]) -> str:
    """A subset of changes, made as `docs/json.md` says."""
    needed = {name for k in taken for name in changes[k].needs}
    taken = taken | {k for k, change in enumerate(changes) if change.provides in needed}
    return apply_edits(
        source,
        [e for k in sorted(taken) for e in changes[k].edits if e.unless not in taken],
    )


def unbound(source: str) -> set[str]:
    """The global names that a program uses and never binds."""
    table = symtable.symtable(source, "program", "exec")
    pending, used = [table], set()
    bound = {s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()}
    while pending:
        scope = pending.pop()
        pending += scope.get_children()
        used |= {s.get_name() for s in scope.get_symbols() if s.is_global() or scope is table}
        bound |= {s.get_name() for s in scope.get_symbols() if s.is_declared_global()}
    return used - bound - set(dir(builtins))


@pytest.mark.parametrize("path", CONVERTED, ids=lambda path: path.stem)
def test_every_change_alone_all_and_none(path: Path) -> None:
    source = path.read_text()
    missing = unbound(source)
    for options in FORMS:
        conversion = convert_source(source, options=options)
        changes = conversion.changes
        own = {k for k, change in enumerate(changes) if change.provides is None}
        assert made(source, changes, own) == conversion.code
        assert made(source, changes, set()) == source
        for k in own:
            text = made(source, changes, {k})
            assert unbound(text) <= missing, (changes[k].rule, text)


def test_select_starts_horovod() -> None:
    code = convert_source(FIT, options=Options(select=("HVD202",))).code
    assert "import horovod.tensorflow as hvd\n" in code
    assert "jhvd.start()" in code
    assert "shard_rows" not in code


def test_ignored_changes_leave_nothing_behind() -> None:
    ignored = FIT.replace("model.fit(x, y)", "model.fit(x, y)  # hvd: ignore[HVD503]")
    code = convert_source(ignored, options=Options(standalone=True)).code
    assert "shard_rows" in convert_source(FIT, options=Options(standalone=True)).code
    assert "shard_rows" not in code
    assert "def hvd_start" in code


def test_the_start_cannot_be_left_out() -> None:
    whole = convert_source(FIT).code
    assert convert_source(FIT, options=Options(ignore=("HVD1",))).code == whole
    comment = FIT.replace("as tf", "as tf  # hvd: ignore")
    assert "jhvd.start()" in convert_source(comment).code


def test_where_nothing_is_changed_nothing_is_added() -> None:
    conversion = convert_source(FIT, options=Options(select=("HVD9",)))
    assert (conversion.code, conversion.status) == (FIT, "unchanged")


NEIGHBOURS = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
print('one')
model.save('model.h5')
print('two',
      'three')

print('four')
if long:
  print('five')
  if longer or longest:
    print('six')
  else:
    print('seven')
def show():
\tprint('eight')
"""


def test_neighbours_share_one_if_and_blocks_keep_their_indentation() -> None:
    code = convert_source(NEIGHBOURS).code
    assert (
        code.partition("0)\n")[2]
        == """if hvd.rank() == 0:
  print('one')
  model.save('model.h5')
  print('two',
        'three')

if hvd.rank() == 0:
  print('four')
if long:
  if hvd.rank() == 0:
    print('five')
  if longer or longest:
    if hvd.rank() == 0:
      print('six')
  else:
    if hvd.rank() == 0:
      print('seven')
def show():
\tif hvd.rank() == 0:
\t\tprint('eight')
"""
    )


@pytest.mark.parametrize("left", ["print('one')", "model.save('model.h5')", "print('two',"])
def test_a_neighbour_that_is_left_out_parts_the_others(left: str) -> None:
    source = NEIGHBOURS.partition("\nprint('four')")[0].replace(left, f"{left}  # hvd: ignore")
    code = convert_source(source).code
    ast.parse(code)
    assert f"\n{left}" in code
    assert code.count("if hvd.rank() == 0:") == (2 if "save" in left else 1)


def test_only_statement_of_an_if() -> None:
    source = f"{FIT}if epoch % 5 == 0:\n    print(1)\nif a or b:\n    print(2)\n"
    code = convert_source(source).code
    assert "if epoch % 5 == 0 and hvd.rank() == 0:\n    print(1)\n" in code
    assert "if (a or b) and hvd.rank() == 0:\n    print(2)\n" in code


def test_all_wait_between_neighbours() -> None:
    """What all ranks do between two lines of rank 0 stands under no `if`."""
    source = f"{FIT}numpy.save('a.npy', x)\nprint(numpy.load('a.npy'))\n"
    code = convert_source(f"import numpy\n{source}").code
    assert (
        code.endswith(
            "if hvd.rank() == 0:\n    numpy.save('a.npy', x)\njhvd.wait_for_rank_zero()\n"
            "if hvd.rank() == 0:\n    print(numpy.load('a.npy'))\n"
        )
        or "hvd_printed = (numpy.load('a.npy'),)" in code
    )
    ast.parse(code)


# The runtime's functions, written into a program


def test_definitions_are_complete() -> None:
    # These are for `--batch global`, which no stand-alone program can be converted for.
    assert set(runtime.__all__) - {"rank_zero", "share", "start_shared"} <= definitions().keys()
    assert Layer.DEFINITION + len(definitions()) <= Layer.START, "each has a place of its own"
    assert len({name.lstrip("_") for name in definitions()}) == len(definitions())
    for definition in definitions().values():
        assert set(definition.needs) <= definitions().keys()
        inner = m.findall(definition.statement, m.FunctionDef() | m.ClassDef())
        own = {each.name.value for each in inner if each is not definition.statement}
        assert not own & definitions().keys(), "a method would be renamed with the function"


def test_only_what_is_needed_is_written_in() -> None:
    code = convert_source(FIT, options=Options(standalone=True)).code
    assert "jhvd" not in code
    assert "import jupyter_hvd" not in code
    blocks = (ast.FunctionDef, ast.ClassDef)
    definitions = [node for node in ast.parse(code).body if isinstance(node, blocks)]
    top = {definition.name for definition in definitions}
    guard = "Guard watch fit_guard compare_ranks meet_at_exit join_ranks note_updates note_updates_of checksum"
    assert top == {
        *(f"hvd_{name}" for name in guard.split()),
        *("hvd_shard_rows", "hvd_start", "hvd_check_keras", "hvd_own_gpu"),
        "hvd_BroadcastGlobalVariablesCallback",
        *(
            "hvd_DistributedOptimizer",
            "hvd_average_gradients",
            "hvd_averages",
            "hvd_average_outside",
            "hvd_sums",
        ),
        *("hvd_variables", "hvd_tensorflow_variable"),
    }
    assert all(map(ast.get_docstring, definitions))
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    assert not any(f.returns or arg.annotation for f in functions for arg in f.args.args)


def test_names_of_the_program_are_kept() -> None:
    taken = "WeakKeyDictionary = hvd_broadcast_once = None\n"
    source = (FOLDER / "tape_tf_function.py").read_text() + taken
    code = convert_source(source, options=Options(standalone=True)).code
    assert "from weakref import WeakKeyDictionary as hvd_WeakKeyDictionary\n" in code
    assert "hvd_broadcast = hvd_WeakKeyDictionary()\n" in code
    assert "def hvd_broadcast_once_2(" in code
