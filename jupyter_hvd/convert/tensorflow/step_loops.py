"""User-defined steps that take all rows each time: full-batch training."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import ELEMENT, Binding
from ...analysis.library import Kind
from ...analysis.syntax import method
from . import tf_api
from .roles import Role
from .training_data import TrainingData

#: What gives a batch, by its name, and whose functions of such names are known.
_BATCH = re.compile(r"batch|draw|fetch|next|sample", re.IGNORECASE)
_KNOWN = ("builtins.", "math.", "numpy.", "random.", "tensorflow.", *tf_api.INERT)
#: What makes environments, in which an agent plays episodes.
_ENVIRONMENTS = frozenset({"gym", "gymnasium", "suite_gym", "pettingzoo"})
#: What takes rows by their numbers, as brackets do.
_TAKING = frozenset({"tensorflow.gather", "tensorflow.slice", "numpy.take"})
#: Modules whose functions draw random numbers; and methods of generators that draw rows, or their numbers.
_DRAWING = ("numpy.random.", "random.", "tensorflow.random.")
_DRAWING_ROWS = frozenset(
    "choice choices integers permutation permuted randint random_integers randrange sample".split()
)
_GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})


class StepLoops:
    """The training steps of one module: their inputs, their loops, and which of them take all rows each time."""

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self.training = data.training
        self.values = data.values
        self.module = data.module
        self._turns = data.turns
        self._slices: dict[cst.Call, dict[cst.CSTNode, None]] = {}

    @cached_property
    def full_batch_steps(self) -> frozenset[cst.Call]:
        """The steps that provably take the same rows each time."""
        unseen = {call for call, given in self.data.unseen_loops.items() if given is None}
        return frozenset(
            call for call in unseen if self._is_followed(call) and self._is_full_batch(call)
        )

    def _is_followed(self, call: cst.Call) -> bool:
        """Whether the step's arguments can be traced: its functions are called here, not by a lambda, and without `*args`."""
        module, calls = self.module, self.values.calls
        return not any(
            any(arg.star for arg in each.args)
            or module.function_of(each) in self.values.index.generators
            or not ((function := module.function_of(each)) is None or calls.sites(function))
            or any(
                isinstance(around, cst.Lambda)
                and module.function_of(around) is module.function_of(each)
                for around in module.ancestors(each)
            )
            for each in calls.leading_to(call)
        )

    def _is_full_batch(self, call: cst.Call) -> bool:
        """Whether no loop around a step runs over data or its parts, and no iteration selects rows by number or draws them."""
        if not all(map(self._is_of_settings, self.data.loop_data[call])):
            return False
        around, given = self._find_counting_loops(call), self.find_inputs(call)
        drawn = [node for node in given if self._is_drawn(node)]
        if any(self._is_within(node, loop, given) for node in drawn for loop in around):
            return False
        loops = [
            loop.iter
            for loop in around
            if isinstance(loop, cst.For) and loop not in self.training.variable_loops
        ]
        if any(loop in given and self._turns.is_over_parts(loop) for loop in loops):
            return False
        for node in given:
            match node:
                case cst.Subscript(slice=parts):
                    index: list[cst.CSTNode] = [*parts]
                case cst.Call() if self.values.qualified(node.func) in _TAKING:
                    index = [arg.value for arg in node.args[1:]]
                case _:
                    continue
            behind = {n for part in index for n in self.values.flow.backward_slice(part)}
            if any(loop in behind for loop in loops):
                return False
        return True

    def _is_drawn(self, node: cst.CSTNode) -> bool:
        """Whether a call returns other rows each time: it draws random numbers, steps an environment, or has a name like
        `next_batch`.
        """
        if not isinstance(node, cst.Call):
            return False
        name = self.values.qualified(node.func)
        if name.startswith(_DRAWING) or method(node) == "__next__":
            return True
        if isinstance(node.func, cst.Attribute):
            made = {value.name for value in self.values.of(node.func.value)}
            if method(node) in _DRAWING_ROWS and made & _GENERATORS:
                return True
            environments = {each.partition(".")[0] for each in made} & _ENVIRONMENTS
            if method(node) in ("reset", "step") and environments:
                return True
        called = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if not _BATCH.search(self.module.text(called)):
            return False
        giver = self.values.of(node.func)
        if isinstance(node.func, cst.Attribute) and not self.values.qualified(node.func):
            giver = self.values.of(node.func.value)
        return any(value.name and not value.name.startswith(_KNOWN) for value in giver)

    def _is_of_settings(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over rates, names, models or the like, and over no data."""
        inner = self.values.flow.unwrap_iteration(iterable)
        if any(map(self.data.is_user_defined_iterable, self.values.of(inner))):
            return False
        kinds = {value.kind for value in self.values.of(inner, (ELEMENT,))}
        return bool(kinds) and not kinds & {
            *(Kind.UNKNOWN, Kind.OTHER, Kind.CONTAINER, Kind.GENERATOR),
            Role.DATASET,
        }

    def _find_counting_loops(self, call: cst.Call) -> list[cst.For | cst.While]:
        """Return the counting loops around a step, up to one that creates a new model for it."""
        updates = {
            update.call
            for update, sites in self.data.step_sites
            if any(site.call is call for site in sites)
        }
        around = self._iterate_counting_loops(call, frozenset())
        return list(
            itertools.takewhile(
                lambda loop: not self.data.anew.are_recreated_in(updates, loop), around
            )
        )

    def find_inputs(self, call: cst.Call) -> dict[cst.CSTNode, None]:
        """Return the nodes that a step and its updates are computed from. The values are unused: an ordered set."""
        found = self._slices.get(call)
        if found is None:
            updates = (u for u, sites in self.data.step_sites if call in (s.call for s in sites))
            calls = dict.fromkeys((call, *(update.call for update in updates)))
            slices = map(self.values.flow.backward_slice, calls)
            found = self._slices[call] = dict.fromkeys(n for each in slices for n in each)
        return found

    def draws_from_filled_list(self, call: cst.Call) -> bool:
        """Whether a step draws rows from a list that the same loop fills, such as a replay buffer."""
        loops = [a for a in self.module.ancestors(call) if isinstance(a, cst.For | cst.While)]
        filled = self.values.index.filled, self.values.index.filled_attributes
        for node in self.find_inputs(call) if loops else ():
            if not isinstance(node, cst.Call) or method(node) not in _DRAWING_ROWS or not node.args:
                continue
            match node.args[0].value:
                case cst.Name(value=name):
                    fills = filled[0].get(name, ())
                case cst.Attribute(attr=cst.Name(value=name)):
                    fills = filled[1].get(name, ())
                case _:
                    continue
            if any(self._is_within(fill, loop, ()) for fill in fills for loop in loops):
                return True
        return False

    def _is_within(
        self,
        node: cst.CSTNode,
        loop: cst.CSTNode,
        behind: Collection[cst.CSTNode],
        seen: frozenset[cst.CSTNode] = frozenset(),
    ) -> bool:
        """Whether a node runs within a loop, directly or by calls of its function.

        Args:
            behind: the inputs of a step; of several calls, only those among them count, if there are any.
        """
        if loop in self.module.ancestors(node):
            return True
        function = self.module.function_of(node)
        if function is None or function in seen:
            return False
        every = self.values.calls.sites(function)
        sites = [site for site in every if site in behind] or every
        return bool(sites) and all(
            self._is_within(site, loop, behind, seen | {function}) for site in sites
        )

    # Counters

    def find_counter_limit(self, loop: cst.While) -> cst.BaseExpression | None:
        """Return `limit` of a loop that counts its iterations: `step = 0`, `while step < limit: … step += 1`, or from 1 with
        `<=`.

        None if the counter starts elsewhere, or anything else sets it.
        """
        match loop.test:
            case cst.Comparison(
                left=cst.Name(value=name) as counter,
                comparisons=[
                    cst.ComparisonTarget(
                        operator=cst.LessThan() | cst.LessThanEqual() as operator, comparator=limit
                    )
                ],
            ):
                pass
            case _:
                return None
        lines = [line for line in loop.body.body if isinstance(line, cst.SimpleStatementLine)]
        ups = [
            small
            for line in lines
            for small in line.body
            if (up := find_incremented_name(small)) is not None and up.value == name
        ]
        first = "0" if isinstance(operator, cst.LessThan) else "1"
        within = {id(small) for small in ups}
        for binding in self.values.definitions.of(counter):
            value = binding.value if isinstance(binding, Binding) else binding
            node = (binding.target or binding.value) if isinstance(binding, Binding) else binding
            if within & {id(each) for each in (node, *self.module.ancestors(node))}:
                continue
            starts = isinstance(value, cst.Integer) and value.value == first
            if not starts or loop in self.module.ancestors(node):
                return None
        endless = "inf" in self.module.text(limit)
        return limit if len(ups) == 1 and not endless else None

    def _iterate_counting_loops(
        self, node: cst.CSTNode, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.For | cst.While]:
        """Yield the loops over ranges or counters around a node, innermost first, through calls, up to a loop over data."""
        function = self.module.function_of(node)
        for ancestor in self.module.ancestors(node):
            if ancestor is function:
                break
            if isinstance(ancestor, cst.For):
                if self.data.is_over_data(ancestor.iter):
                    return
                yield ancestor
            if isinstance(ancestor, cst.While) and self.find_counter_limit(ancestor) is not None:
                yield ancestor
        sites = self.values.calls.sites(function) if function is not None else []
        if function is not None and len(sites) == 1 and function not in seen:
            yield from self._iterate_counting_loops(sites[0], seen | {function})


def find_incremented_name(statement: cst.CSTNode | None) -> cst.Name | None:
    """Return the name that a statement increments by one; None for other statements."""
    match statement:
        case cst.AugAssign(
            target=cst.Name() as name, operator=cst.AddAssign(), value=cst.Integer(value="1")
        ):
            return name
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name() as name)],
            value=cst.BinaryOperation(
                left=cst.Name(value=other), operator=cst.Add(), right=cst.Integer(value="1")
            ),
        ) if name.value == other:
            return name
    return None
