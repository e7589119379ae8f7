"""What TensorFlow draws at random that must be one thing on all ranks: what they learn, and what is divided among them.

What is drawn before the steps, a true weight or a table of examples, is to be learned; what the data are made of,
wherever it is drawn, is divided; what weights are set to is the same, as they are. The rest is each rank's own: dropout,
augmentation, the noise of a step.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from ...analysis.index import ELEMENT, Path
from ...analysis.library import Value
from ...analysis.syntax import method
from . import tf_api
from .agreement import ASSIGNING
from .randomness import Randomness
from .sharding import Sharding
from .step_loops import StepLoops
from .updates import Update

#: What Keras' layers call their weights.
_OF_LAYERS = frozenset(
    "beta bias depthwise_kernel embeddings gamma kernel pointwise_kernel recurrent_kernel".split()
)


class Alike:
    """The random numbers of one module that all ranks must draw alike."""

    def __init__(self, steps: StepLoops, sharding: Sharding, randomness: Randomness) -> None:
        self._steps, self._sharding, self._randomness = steps, sharding, randomness
        self.data, self.training = steps.data, steps.training
        self.values, self.module = steps.values, steps.module

    @cached_property
    def draws(self) -> list[cst.Call]:
        """The calls that draw, or that make the generator of what is drawn, and that no seed makes the same on all ranks."""
        draws = list(self._randomness.of_tensorflow)
        if not draws:
            return []
        divided = self.divided
        found = {
            made: None
            for call, made in draws
            if (call in divided and not self.is_deferred(call))
            or (self.is_before_steps(call) and not self.is_first_weight(call))
            or (call in self._set and not self.is_deferred(made) and call not in self.compiled)
        }
        return list(found)

    @cached_property
    def compiled(self) -> list[cst.Call]:
        """The calls that draw noise for weights where no seed can be set when they run: in a compiled step, in an optimizer."""
        return [
            call
            for call, made in self._randomness.by_tensorflow
            if call in self._set
            and self.training.draws_compiled(call)
            and (made is call or self.training.draws_compiled(made))
        ]

    @cached_property
    def _set(self) -> set[cst.CSTNode]:
        """What weights are set to, but for gradients and what an update of training averages: noise that is added, say."""
        averaged = {update.call for update in self.training.updates if not self._is_noisy(update)}
        return {
            node
            for call in self.values.index.calls
            if call.args and call not in averaged and self._sets_weights(call)
            for node in self.values.flow.backward_slice(
                call.args[0].value, self.training.gradients.is_gradient
            )
        }

    def _is_noisy(self, update: Update) -> bool:
        """Whether an update by hand is the same on all ranks but for its noise: `w.assign_add(noise - rate * gradient)`."""
        if update.optimizer is not None or update.applied is None:
            return False
        value, noise = update.applied[0], self.training.noise
        return self.training.agreement.is_equal_but_for(value, noise, trained=True)

    def _sets_weights(self, call: cst.Call) -> bool:
        """Whether a call sets weights: `model.set_weights(w)`, `v.assign(w)`, `layer.kernel.assign(w)`, or an optimizer."""
        match call.func:
            case cst.Attribute() if method(call) in ASSIGNING and self.training.is_of_optimizer(
                call
            ):
                return True
            case cst.Attribute(attr=cst.Name("set_weights")):
                return True
            case cst.Attribute(value=variable) if method(call) in ASSIGNING:
                named = isinstance(variable, cst.Attribute) and variable.attr.value in _OF_LAYERS
                return named or self.training.agreement.is_weight(variable)
        return False

    @cached_property
    def _sources(self) -> list[cst.BaseExpression]:
        return [
            *map(self._sharding.shard_point, self.data.pipelines),
            *(array for fit in self.data.fit_arrays for array in fit.arrays),
            *(batches.expression for batches in self.data.batch_sources),
            *self._sharding.at_use,
        ]

    @property
    def turns(self) -> Iterable[cst.CSTNode]:
        """The loops whose turns take a rank's own batches."""
        return self._steps.cut.values()

    @property
    def parted(self) -> list[cst.BaseExpression]:
        """The data where ranks part: what each takes of is one thing on all of them."""
        return [*self._sources, *self._steps.batches_cut]

    @cached_property
    def divided(self) -> set[cst.CSTNode]:
        """All that the data are made of where they are divided, and the calls in generators of batches."""
        cut = (
            node
            for call in self._steps.cut
            for node in self.values.flow.backward_slice(call)
            if isinstance(node, cst.Subscript)
        )
        sources = [*self._sources, *cut, *self._steps.batches_cut]
        nodes = {node for each in sources for node in self.values.flow.backward_slice(each)}
        generators = {
            value.node
            for node in nodes
            if isinstance(node, (cst.Name, cst.Attribute, cst.Call))
            for value in self.values.of(node)
            if value.node in self.values.index.generators
        }
        owners = {
            value.node
            for batches in self.data.batch_sources
            if not batches.is_sequence
            for value in self.values.of(batches.expression)
            if isinstance(value.node, cst.ClassDef)
        }
        return nodes.union(
            call
            for call in self.values.index.calls
            if (function := self.module.function_of(call)) is not None
            and (function in generators or self.module.class_of(function) in owners)
        )

    def is_deferred(self, call: cst.CSTNode) -> bool:
        """Whether a call stands in a lambda, or in a function that is compiled."""
        function = self.module.function_of(call)
        lambdas = (a for a in self.module.ancestors(call) if isinstance(a, cst.Lambda))
        return function in self.training.compiled.functions or next(lambdas, None) is not None

    def is_before_steps(
        self, call: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> bool:
        """Whether a call runs in no loop around a training step, and is this program's own."""
        function = self.module.function_of(call)
        around = {a for a in self.module.ancestors(call) if isinstance(a, (cst.For, cst.While))}
        if around & self.loops or self.is_deferred(call) or function in seen:
            return False
        if function is None:
            return True
        sites = list(self.values.calls.sites(function))
        owner = self.module.class_of(function)
        if owner is not None and function.name.value == "__init__":
            sites += self.values.calls.sites(owner)
        return bool(sites) and all(self.is_before_steps(s, seen | {function}) for s in sites)

    @cached_property
    def loops(self) -> set[cst.CSTNode]:
        """The loops around training steps, and around `fit`, through calls."""
        found: set[cst.CSTNode] = set()
        pending = [u.call for u in self.training.updates] + self.training.keras.fits
        pending += self.training.keras.searches
        seen: set[cst.CSTNode] = set()
        while pending:
            call = pending.pop()
            around = self.module.ancestors(call)
            found.update(a for a in around if isinstance(a, (cst.For, cst.While)))
            function = self.module.function_of(call)
            if function is not None and function not in seen:
                seen.add(function)
                pending += self.values.calls.sites(function)
        return found

    def is_first_weight(self, call: cst.Call) -> bool:
        """Whether a weight begins with what is drawn; weights are broadcast."""
        for made in self.module.ancestors(call):
            if isinstance(made, cst.Call) and self.values.qualified(made.func) == (
                "tensorflow.Variable"
            ):
                owner = self.module.enclosing(made, cst.ClassDef)
                bases = self.values.classes.library_bases(owner) if owner is not None else ()
                own = any(base.startswith(tf_api.OWNERS) for base in bases)
                return own or bool(self.values.of(made) & self._trained)
        return False

    @cached_property
    def _trained(self) -> frozenset[Value]:
        """The variables that gradients are taken for, or that an optimizer is given one by one."""
        parts: tuple[Path, ...] = (), (ELEMENT,)
        given = [v for update in self.training.updates for v in update.variables]
        found = (self.values.of(each, part) for each in given for part in parts)
        return self.training.gradients.sources.union(*found)
