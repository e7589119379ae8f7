"""What a value may be, where it is changed in place, or handed to a static method."""

from __future__ import annotations

import libcst as cst

from jupyter_hvd.analysis.module import Module
from jupyter_hvd.analysis.values import ValueAnalysis
from jupyter_hvd.convert.tensorflow.library import TensorFlowLibrary


def texts_reaching(source: str) -> set[str]:
    """What the last name of a program, an expression of its own, may be."""
    module = Module(source)
    values = ValueAnalysis(module, TensorFlowLibrary())
    last = module.tree.body[-1]
    assert isinstance(last, cst.SimpleStatementLine)
    assert isinstance(last.body[0], cst.Expr)
    return {module.text(node) for node, _ in values.flow.predecessors(last.body[0].value)}


def test_what_is_added_to_keeps_what_it_was() -> None:
    assert texts_reaching("x = first\nx //= 2\nx\n") == {"first", "2"}
    assert texts_reaching("x = first\nx = x // 2\nx\n") == {"x // 2"}


def test_what_stands_behind_a_header_is_not_sure_to_run() -> None:
    assert texts_reaching("x = first\nif late: x = second\nx\n") == {"first", "second"}
    assert texts_reaching("x = first\nfor n in turns: y = x; x = f(y)\ny\n") == {"x"}
    assert texts_reaching("x = first; x = second\nx\n") == {"second"}


CLASS = "class A:\n{decorator}    def f({parameters}):\n        return b\n\n\n{call}\n"


def passed(decorator: str, parameters: str, call: str) -> set[str]:
    source = CLASS.format(decorator=decorator, parameters=parameters, call=call)
    module = Module(source)
    values = ValueAnalysis(module, TensorFlowLibrary())
    params = values.index.functions[0].params.params
    return {module.text(node) for node in values.flow.find_arguments(params[-1])}


def test_static_methods_have_no_self() -> None:
    static = "    @staticmethod\n"
    assert passed(static, "a, b", "A.f(1, 2)") == {"2"}
    assert passed(static, "a, b", "A().f(1, 2)") == {"2"}
    assert passed("", "self, a, b", "A().f(1, 2)") == {"2"}
    assert passed("", "self, a, b", "A.f(A(), 1, 2)") == {"2"}
    assert passed("    @classmethod\n", "cls, a, b", "A.f(1, 2)") == {"2"}
