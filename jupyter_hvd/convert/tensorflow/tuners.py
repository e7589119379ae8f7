"""Tuners of KerasTuner: which calls train their models, and where they get the batch size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.library import Value
from ...analysis.syntax import argument, has_star, method, text_key
from ...analysis.tree import children_of
from ...analysis.values import ValueAnalysis
from . import tf_api
from .roles import Role


class Tuners:
    """The tuners of one module, and the classes and functions of the program that they call.

    A tuner builds models by a function or by `HyperModel.build`, and trains each with what `search` is given. A program may take
    this over: `HyperModel.fit`, or a tuner's `run_trial`, calls `fit` itself or sets `kwargs["batch_size"]`.
    """

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values
        self._module = values.module

    @cached_property
    def searches(self) -> list[cst.Call]:
        """The calls of a tuner's `search`."""
        return [
            call
            for call in self._values.index.calls
            if method(call) == "search"
            and isinstance(call.func, cst.Attribute)
            and any(map(self._is_tuner, self._values.of(call.func.value)))
        ]

    @cached_property
    def fits_within(self) -> list[cst.Call]:
        """The calls of a model's `fit` in user-defined tuners and hypermodels."""
        calls = self._values.index.calls if self._classes else ()
        return [c for c in calls if method(c) == "fit" and self._is_within(c) and not _is_super(c)]

    @cached_property
    def sizes_set(self) -> list[cst.BaseExpression]:
        """The batch sizes that user-defined tuners put among the arguments of `fit`: `kwargs["batch_size"] = 64`."""
        assignments = (
            (target, binding)
            for binding in self._assignments
            for target in (each.target for each in binding.targets)
        )
        return [binding.value for target, binding in assignments if _is_batch_size(target)]

    @cached_property
    def trainings(self) -> list[cst.Call]:
        """The calls that determine the batch size of tuned models: fits within a tuner that state one, else the searches."""
        own = [c for c in self.fits_within if not has_star(c) or argument(c, "batch_size")]
        return own or self.searches

    def builds(self, node: cst.CSTNode) -> bool:
        """Whether a node is in a function that builds models for a tuner, or in one that such a function calls."""
        pending, seen = [self._module.function_of(node)], set[cst.CSTNode]()
        while pending:
            function = pending.pop()
            if function is None or function in seen:
                continue
            if function in self._builders:
                return True
            seen.add(function)
            pending += map(self._module.function_of, self._values.calls.sites(function))
        return False

    @cached_property
    def _builders(self) -> frozenset[cst.CSTNode]:
        """The functions that build models for a tuner: `HyperModel.build`, and functions passed as `hypermodel`."""
        classes = self._values.classes
        found: set[cst.CSTNode] = set()
        for owner in self._classes:
            found |= {*classes.methods(owner, "build")}
        for call in self._values.index.calls:
            arg = argument(call, "hypermodel", 0)
            makes = any(value.kind is Role.TUNER for value in self._values.of(call))
            if arg is not None and makes | any(
                map(self._is_tuner_class, self._values.of(call.func))
            ):
                values = self._values.of(arg.value)
                found |= {v.node for v in values if isinstance(v.node, cst.FunctionDef)}
        return frozenset(found)

    @cached_property
    def _classes(self) -> list[cst.ClassDef]:
        """The user-defined tuners and hypermodels."""
        return [owner for owner in self._values.index.classes if self._inherits(owner)]

    def _inherits(self, owner: cst.ClassDef) -> bool:
        """Whether a class inherits a tuner or hypermodel of KerasTuner."""
        return any(map(tf_api.is_tuner_class, self._values.classes.library_bases(owner)))

    def _is_tuner_class(self, value: Value) -> bool:
        """Whether a value is of a user-defined tuner or hypermodel class."""
        return isinstance(value.node, cst.ClassDef) and self._inherits(value.node)

    def _is_tuner(self, value: Value) -> bool:
        """Whether a value is a tuner, KerasTuner's or user-defined."""
        return value.kind is Role.TUNER or self._is_tuner_class(value)

    def _is_within(self, node: cst.CSTNode) -> bool:
        """Whether a node is in the body of a user-defined tuner or hypermodel."""
        return any(around in self._classes for around in self._module.ancestors(node))

    @property
    def _assignments(self) -> Iterator[cst.Assign]:
        """The assignments in the bodies of user-defined tuners and hypermodels."""
        pending: list[cst.CSTNode] = [*self._classes]
        while pending:
            node = pending.pop()
            pending += children_of(node)
            if isinstance(node, cst.Assign):
                yield node


def _is_super(call: cst.Call) -> bool:
    """Whether a call is one of a base class' method: `super().fit(…)`."""
    match call.func:
        case cst.Attribute(value=cst.Call(func=cst.Name("super"))):
            return True
    return False


def _is_batch_size(target: cst.BaseExpression) -> bool:
    """Whether an assignment's target is `…["batch_size"]`."""
    return isinstance(target, cst.Subscript) and text_key(target) == "batch_size"
