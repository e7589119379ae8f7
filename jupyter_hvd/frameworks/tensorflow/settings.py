"""Weights that a program sets by itself: those of its best epoch, those of another model, a mean of several.

An optimizer's steps leave all ranks with the same weights. What is kept of them is the same only where all ranks keep it at
the same step, and take the same of what they have kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.syntax import method
from ...analysis.uniformity import is_uniform, tests_of
from .agreement import ASSIGNING, VARIABLE_LISTS
from .training import Training
from .updates import is_repeated

#: Methods of lists and dicts that change what they hold in a way that is not followed.
_CHANGING = frozenset({"update", "setdefault", "insert", "pop", "popleft", "appendleft", "sort"})


@dataclass(frozen=True, eq=False)
class Setting:
    """A call that sets weights, and what it sets them to."""

    call: cst.Call
    value: cst.BaseExpression


class Settings:
    """The calls of one module that set weights beside its optimizers."""

    def __init__(self, training: Training) -> None:
        self._training, self._agreement = training, training.agreement
        self._values, self._module = training.values, training.module

    @cached_property
    def every(self) -> list[Setting]:
        """All but those of callbacks, which go by metrics that are averaged, and which rank 0 alone may have."""
        if self._training.loop == "none":
            return []
        updates = {update.call for update in self._training.updates}
        return [
            Setting(call, call.args[0].value)
            for call in self._values.index.calls
            if call.args and call not in updates and self._sets(call)
        ]

    @cached_property
    def kept(self) -> list[cst.CSTNode]:
        """Where weights are read of which others are made, and set, in callbacks too."""
        own = (call.args[0].value for call in self.of_callbacks if call.args)
        made = [*(setting.value for setting in self.every), *own]
        behind = (node for each in made for node in self._values.flow.backward_slice(each))
        return [node for node in dict.fromkeys(behind) if self._agreement.reads_weights(node)]

    @cached_property
    def of_callbacks(self) -> list[cst.Call]:
        """The calls by which callbacks set weights."""
        is_callback, owner = self._training.keras.is_callback, self._module.enclosing
        calls = (call for call in self._values.index.calls if method(call) == "set_weights")
        return [call for call in calls if is_callback(owner(call, cst.ClassDef))]

    def _sets(self, call: cst.Call) -> bool:
        if self._training.keras.is_callback(self._module.enclosing(call, cst.ClassDef)):
            return False
        if method(call) == "set_weights":
            return True
        if method(call) not in ASSIGNING:
            return False
        assert isinstance(call.func, cst.Attribute)
        return self._agreement.is_weight(call.func.value)

    def deciding(self, setting: Setting) -> list[cst.BaseExpression]:
        """The tests that decide which of several weights were kept, and that ranks may answer each in its own way."""
        tests = (
            test
            for node in self._behind(setting)
            if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript))
            for test in tests_of(self._values, node)
        )
        return [test for test in dict.fromkeys(tests) if not self._agreement.is_equal(test)]

    def is_alike(self, setting: Setting) -> bool:
        """Whether all ranks set the same for certain, where they answer `deciding` alike, or something that no training gives."""
        behind = list(self._behind(setting))
        if not any(map(self._is_of_training, behind)):
            return True
        return self._agreement.is_equal(setting.value) and not any(map(self._may_differ, behind))

    def _is_of_training(self, node: cst.CSTNode) -> bool:
        seen = node in self._training.seen_by_rank or node in self._noise
        return seen or self._agreement.reads_weights(node) or self._is_changed(node)

    @cached_property
    def _noise(self) -> frozenset[cst.Call]:
        """What is drawn from NumPy's or Python's random numbers between steps: ranks may have drawn as many before, or not."""
        noise = self._training.randomness.noise_of_numpy
        taken = self._training.gradients.are_taken
        return frozenset(call for call in noise if taken and is_repeated(self._values, call))

    def _may_differ(self, node: cst.CSTNode) -> bool:
        """Whether a part of what is kept is taken by a number of each rank's own, or is changed in a way that is not followed."""
        match node:
            case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=index))]):
                return not (is_uniform(self._values, index) or self._agreement.is_equal(index))
        return self._is_changed(node)

    def _is_changed(self, node: cst.CSTNode) -> bool:
        """Whether a name means what one of the methods changes that are not followed."""
        identity = self._values.definitions.identity
        return isinstance(node, cst.Name) and any(
            identity(call.func.value) == identity(node)
            for call in self._changing
            if isinstance(call.func, cst.Attribute)
        )

    @cached_property
    def _changing(self) -> list[cst.Call]:
        return [call for call in self._values.index.calls if method(call) in _CHANGING]

    def _behind(self, setting: Setting) -> Iterator[cst.CSTNode]:
        """What is set, and what it is made of, up to where weights are read."""
        return self._values.flow.backward_slice(setting.value, ends=self._is_weights)

    def _is_weights(self, node: cst.CSTNode) -> bool:
        listed = isinstance(node, cst.Attribute) and node.attr.value in VARIABLE_LISTS
        return listed or self._agreement.reads_weights(node)
