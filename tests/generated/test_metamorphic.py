"""The same program written otherwise keeps its verdict: converted, or refused by the same rules.

Nothing is run. Names are changed, loops outlined into functions, functions inlined, statements and cells put into
another order where order allows.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from functools import cache

import libcst as cst
import libcst.matchers as m
import nbformat
import pytest
from grammar import DIMENSIONS, Program, draw, is_sound, text

from jupyter_hvd import convert_notebook, convert_source

from ..suite import RUN, representatives

#: Of programs that the same rules change; the others are for `make test-thorough`.
QUICK = representatives(RUN, 3)
GENERATED = range(6)
Verdict = tuple[str, tuple[str, ...], tuple[str, ...]]


@cache
def verdict(source: str) -> Verdict:
    return judged(convert_source(source))


def judged(conversion) -> Verdict:
    """The status, the rules that refuse, and those that change something."""
    errors = {d.code for d in conversion.diagnostics if d.severity == "error"}
    changed = {change.rule for change in conversion.changes}
    return conversion.status, tuple(sorted(errors)), tuple(sorted(changed))


def sources() -> list:
    given = [
        pytest.param(p.source, id=p.name, marks=() if p.name in QUICK else pytest.mark.thorough)
        for p in RUN
    ]
    return [*given, *(pytest.param(text(draw(seed)), id=f"seed{seed}") for seed in GENERATED)]


# What changes a program without changing what it does


class Names(cst.CSTVisitor):
    """The names that are bound, those that are not one program's own to change, and those that are read.

    Attributes and keywords may be a library's; a method's name is its class's.
    """

    def __init__(self) -> None:
        self.bound: set[str] = set()
        self.fixed: set[str] = {*dir(builtins)}
        self.read: set[str] = set()
        self._classes = 0

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        self.fixed.add(node.evaluated_alias or node.evaluated_name.split(".")[0])
        return False

    def visit_Arg(self, node: cst.Arg) -> None:
        if node.keyword is not None:
            self.fixed.add(node.keyword.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.add(node.name.value)
        own = (s for s in node.body.body if isinstance(s, cst.FunctionDef))
        self.fixed.update(method.name.value for method in own)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.add(node.name.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._bind(node.name)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.read.add(node.value)

    def _bind(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.bound.add(target.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value)


def names_of(node: cst.CSTNode) -> Names:
    names = Names()
    node.visit(names)
    return names


class Renaming(cst.CSTTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node.value in self.names:
            return updated_node.with_changes(value=f"{original_node.value}_of_mine")
        return updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


def renamed(source: str) -> str:
    """Every name that is the program's own, another."""
    module = cst.parse_module(source)
    names = names_of(module)
    return module.visit(Renaming(names.bound - names.fixed)).code


def outlined(source: str) -> Iterator[str]:
    """Each loop at the top level, in a function that is called in its place, where nothing that it binds is read later.

    With one loop more each time, so that the last program has all of them outlined.
    """
    module = cst.parse_module(source)
    body = list(module.body)
    for at, statement in enumerate(module.body):
        if not isinstance(statement, (cst.For, cst.While)):
            continue
        here = body.index(statement)
        bound = names_of(statement).bound
        others = names_of(cst.Module(body=[s for s in module.body if s is not statement]))
        if bound & (others.read | others.bound) or m.findall(statement, m.Await() | m.AugAssign()):
            continue
        inner = statement.with_changes(leading_lines=[])
        name = f"outlined_{at}"
        function = cst.FunctionDef(cst.Name(name), cst.Parameters(), cst.IndentedBlock([inner]))
        body[here : here + 1] = [function, cst.parse_statement(f"{name}()")]
        yield module.with_changes(body=body).code


def reordered(source: str) -> str:
    """Functions and classes, as far down as they can stand."""
    module = cst.parse_module(source)
    body = list(module.body)
    definitions = [s for s in body if isinstance(s, (cst.FunctionDef, cst.ClassDef))]
    for definition in reversed(definitions):
        name = definition.name.value
        if any(name in names_of(other).read for other in definitions if other is not definition):
            continue  # who calls the other may come to this one
        here = body.index(definition)
        while here + 1 < len(body) and may_follow(definition, body[here + 1]):
            body[here], body[here + 1] = body[here + 1], body[here]
            here += 1
    return module.with_changes(body=body).code


def may_follow(definition: cst.FunctionDef | cst.ClassDef, statement: cst.BaseStatement) -> bool:
    """Whether a statement may stand before a definition instead of behind: neither needs the other."""
    names = names_of(statement)
    if definition.name.value in names.read | names.bound:
        return False
    # A function reads what it needs when it is called, a class when it is defined.
    at_once = [definition] if isinstance(definition, cst.ClassDef) else definition.decorators
    parameters = [definition.params] if isinstance(definition, cst.FunctionDef) else []
    return not any(names.bound & names_of(node).read for node in (*at_once, *parameters))


def as_notebook(source: str) -> nbformat.NotebookNode:
    """A cell for each statement at the top level."""
    module = cst.parse_module(source)
    parts: Sequence[str] = [
        module.code_for_node(statement).strip("\n") for statement in module.body
    ]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(part) for part in parts])


@pytest.mark.parametrize("source", sources())
def test_written_otherwise(source: str) -> None:
    """With other names, loops outlined, in another order, in a cell for each statement: all at once, then one by one."""
    expected = verdict(source)
    *_, outline = source, *outlined(source)
    together = judged(convert_notebook(as_notebook(reordered(renamed(outline)))))
    if together == expected or (outline != source and together[:2] == expected[:2]):
        return
    assert verdict(renamed(source)) == expected
    changed = reordered(source)
    assert verdict(changed) == expected, changed
    for changed in outlined(source):
        assert verdict(changed)[:2] == expected[:2], changed
    assert judged(convert_notebook(as_notebook(source))) == expected
    raise AssertionError(f"only together: {reordered(renamed(outline))}")


def variants(program: Program) -> Iterator[Program]:
    """The program in other frames: its step inlined, or in a function, a closure, a class; the whole in functions."""
    for dimension in ("structure", "place", "names", "imports"):
        for option in DIMENSIONS[dimension]:
            other = program.having(dimension, option)
            if other != program and option != "lambda" and is_sound(other):
                yield other


@pytest.mark.parametrize("seed", GENERATED)
def test_another_frame(seed: int) -> None:
    """Functions inlined and outlined: where the statements of a generated program stand."""
    program = draw(seed)
    if program.place == "lambda":
        program = program.having("place", "function")
    for other in variants(program):
        compiled = other.place.startswith("compiled") != program.place.startswith("compiled")
        if compiled and program.update == "two_optimizers":
            continue  # a condition in a compiled step is another one
        assert verdict(text(other))[:2] == verdict(text(program))[:2], other.parts
