"""Loops that re-create the model in each iteration: folds, trials, seeds. They do not iterate over the data of one training."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ...analysis.flow import Source
from ...analysis.syntax import method
from ...analysis.values import MAX_PATH
from .gradients import VARIABLE_LISTS
from .roles import Role
from .training import Training
from .updates import Update

Loop = cst.For | cst.While
#: Methods that give a model the weights that it begins with.
_SETTING = frozenset({"set_weights", "load_weights"})


class RecreatedModels:
    """The loops that create a new model or optimizer, or reset its weights, in each iteration."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._values, self._module = training.values, training.module

    def are_recreated_in(self, updates: set[cst.Call], loop: Loop) -> bool:
        """Whether each iteration of a loop creates or resets, for each of these updates, the model or the optimizer."""
        return bool(updates) and all(
            loop in self._loops_by_update.get(update, ()) for update in updates
        )

    @cached_property
    def _loops_by_update(self) -> dict[cst.Call, frozenset[cst.CSTNode]]:
        """The loops that re-create what an update trains, or its optimizer, by the update's call."""
        return {
            update.call: frozenset(self._find_loops(update)) for update in self._training.updates
        }

    def _find_loops(self, update: Update) -> dict[Loop, None]:
        """Return the loops that re-create an update's variables or optimizer, or reset its weights. The values are unused: an
        ordered set.
        """
        pending: list[Source] = [(variables, ()) for variables in update.variables]
        pending += [(update.optimizer, ())] if update.optimizer is not None else []
        passed: set[Source] = set()
        made: list[cst.Call] = []
        while pending:
            node, path = pending.pop()
            if (node, path) in passed or len(path) > MAX_PATH:
                continue
            passed.add((node, path))
            sources = self._values.flow.predecessors(node, path)
            pending += sources
            match node:
                case cst.Attribute(value=owner) if not sources or node.attr.value in VARIABLE_LISTS:
                    pending.append((owner, ()))
                case cst.BinaryOperation(left=left, right=right) if not sources:
                    pending += [(left, ()), (right, ())]
                case cst.Call() if not sources and not path:
                    made.append(node)
        nodes = frozenset(node for node, _ in passed)
        found = {loop: None for call in made for loop in self._find_loops_around(call, nodes)}
        return found | {loop: None for loop in self._resetting_loops if self._resets(loop, passed)}

    @cached_property
    def _resetting_loops(self) -> dict[cst.For, list[cst.BaseExpression]]:
        """The loops that set weights of models above an inner loop, each with the expressions of these models."""
        found: dict[cst.For, list[cst.BaseExpression]] = {}
        for call in self._values.index.calls:
            line = self._module.enclosing(call, cst.SimpleStatementLine)
            block = self._module.parent(line) if line is not None else None
            loop = self._module.parent(block) if block is not None else None
            if method(call) in _SETTING and isinstance(loop, cst.For) and line is not None:
                assert isinstance(call.func, cst.Attribute)
                behind = loop.body.body[list(loop.body.body).index(line) :]
                if any(isinstance(each, Loop) for each in behind):
                    found.setdefault(loop, []).append(call.func.value)
        return found

    def _resets(self, loop: cst.For, passed: set[Source]) -> bool:
        """Whether a loop sets the weights of a model that is among these sources."""
        models = {value for each in self._resetting_loops[loop] for value in self._values.of(each)}
        return any(
            value.kind is Role.MODEL and value in models
            for node, path in passed
            if not path
            for value in self._values.of(node)
        )

    def _find_loops_around(
        self,
        call: cst.Call,
        passed: frozenset[cst.CSTNode],
        seen: frozenset[cst.CSTNode] = frozenset(),
    ) -> dict[Loop, None]:
        """Return the loops that run a call in each iteration, in its function and its callers; not those in which it is under
        an `if`.

        Args:
            passed: callers that lead to the update; only these count.
        """
        function = self._module.function_of(call)
        found: dict[Loop, None] = {}
        for node in self._module.ancestors(call):
            if node is function:
                break
            if isinstance(node, cst.If) and node.orelse is None:
                return found
            if isinstance(node, Loop):
                found[node] = None
        if function is None or function in seen:
            return found
        owner = self._module.class_of(function)
        sites = [*self._values.calls.sites(function)]
        if owner is not None and function.name.value == "__init__":
            sites += self._values.calls.sites(owner)
        for site in sites:
            if site in passed:
                found |= self._find_loops_around(site, passed, seen | {function})
        return found
