"""What changes need is in the program, and nothing else, whichever of them are made."""

from __future__ import annotations

import ast
import builtins
import symtable

import pytest

from jupyter_hvd import Options, convert_source
from jupyter_hvd.convert import Change
from jupyter_hvd.source.edits import apply_edits

from ..suite import PROGRAMS, Program, representatives

CONVERTED = [program for program in PROGRAMS if not program.is_refused]
#: What changes need follows from their rules, and from what the program imports already: others are for `make test-thorough`.
QUICK = representatives(CONVERTED, 1) | {"seed_import_keras"}
FORMS = (Options(), Options(batch="global"))
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


def case(program: Program):
    marks = () if program.name in QUICK else pytest.mark.thorough
    return pytest.param(program.source, id=program.name, marks=marks)


@pytest.mark.parametrize("source", map(case, CONVERTED))
def test_every_change_alone_all_and_none(source: str) -> None:
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


def test_select_imports_horovod() -> None:
    code = convert_source(FIT, options=Options(select=("HVD801",))).code
    assert "import horovod.tensorflow as hvd\n" in code
    assert "jhvd.start_shared()" in code
    assert "Distributed" not in code


def test_changes_that_are_ignored_leave_nothing_behind() -> None:
    code = convert_source(FIT, options=Options(ignore=("HVD4", "HVD8"))).code
    assert "horovod.tensorflow" not in code
    assert "jhvd.DistributedOptimizer('sgd')" in code


def test_the_start_cannot_be_left_out() -> None:
    whole = convert_source(FIT).code
    assert convert_source(FIT, options=Options(ignore=("HVD1", "HVD7"))).code == whole
    comment = FIT.replace("as tf", "as tf  # hvd: ignore")
    assert "jhvd.start_shared()" in convert_source(comment).code


def test_where_nothing_is_changed_nothing_is_added() -> None:
    """Only what starts the ranks: they share the batches of the program as it is."""
    conversion = convert_source(FIT, options=Options(select=("HVD9",)))
    assert [change.rule for change in conversion.changes] == ["HVD701"]


NEIGHBOURS = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
print('one')
print('and')
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
        code.partition("else 0)\n")[2]
        == """if hvd.rank() == 0:
  print('one')
  print('and')
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


@pytest.mark.parametrize("left", ["print('one')", "print('and')", "print('two',"])
def test_a_neighbour_that_is_left_out_parts_the_others(left: str) -> None:
    source = NEIGHBOURS.partition("\nprint('four')")[0].replace(left, f"{left}  # hvd: ignore")
    code = convert_source(source).code
    ast.parse(code)
    assert f"\n{left}" in code
    assert code.count("if hvd.rank() == 0:") == (2 if "and" in left else 1)


def test_only_statement_of_an_if() -> None:
    source = f"{FIT}if epoch % 5 == 0:\n    print(1)\nif a or b:\n    print(2)\n"
    code = convert_source(source).code
    assert "if epoch % 5 == 0 and hvd.rank() == 0:\n    print(1)\n" in code
    assert "if (a or b) and hvd.rank() == 0:\n    print(2)\n" in code
