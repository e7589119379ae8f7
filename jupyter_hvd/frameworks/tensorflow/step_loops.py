"""Counts of training steps: loops that count them, and data that no count limits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.index import Binding
from .pipelines import Pipelines
from .training_data import TrainingData


class StepLoops:
    """The loops of one module whose turns are training steps."""

    def __init__(self, data: TrainingData, pipelines: Pipelines) -> None:
        self.data = data
        self.training = data.training
        self.values = data.values
        self.module = data.module
        self._pipelines = pipelines

    @cached_property
    def loops(self) -> list[cst.For | cst.While]:
        """The loops over a count that draw one batch a turn with `next`: their turns are steps.

        Of the loops around a draw, the innermost that runs every update of the outermost: within
        the steps of a GAN, the turns of its critic stay as many as they are.
        """
        sites = [s.call for u in self.training.updates for s in self.training.eager_sites(u)]
        found: dict[cst.For | cst.While, None] = {}
        for drawn in self.values.index.calls:
            if self.values.qualified(drawn.func) != "builtins.next" or not drawn.args:
                continue
            made = self._iterators(drawn.args[0].value)
            around = [
                loop
                for loop in self._counts_around(drawn, frozenset())
                if not any(loop in self.module.ancestors(node) for node in made)
            ]
            if not around or not self._pipelines.of(drawn.args[0].value):
                continue
            loops_of = [list(self._counts_around(site, frozenset())) for site in sites]
            turns = [loops for loops in loops_of if around[-1] in loops]
            steps = [loop for loop in around if turns and all(loop in loops for loops in turns)]
            found.update(dict.fromkeys(steps[:1]))
        outer = {ancestor for loop in found for ancestor in self.module.ancestors(loop)}
        return [loop for loop in found if loop not in outer]  # else epochs and steps were divided

    def counter_limit(self, loop: cst.While) -> cst.BaseExpression | None:
        """The number of turns of a loop that counts them: `step = 0`, `while step < limit: … step += 1`, or
        from 1 to `<=`; None where the counter begins elsewhere or anything else sets it.
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
        ups = [small for line in lines for small in line.body if _is_one_more(small, name)]
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

    @cached_property
    def unbounded_data(self) -> list[cst.BaseExpression]:
        """The data that training takes without end, stopping by something other than a count of turns."""
        data = dict.fromkeys(data for found in self.data.loop_data.values() for data in found)
        return [
            each
            for each in data
            if (pipelines := self._pipelines.of(each))
            and not any(pipeline.ends for pipeline in pipelines)
            and not any(self._counts_around(each, frozenset()))
        ]

    def _counts_around(
        self, node: cst.CSTNode, seen: frozenset[cst.CSTNode]
    ) -> Iterator[cst.For | cst.While]:
        """The loops over a `range`, or until a counter, around a node, the innermost first, up to one over data,
        through calls.
        """
        function = self.module.function_of(node)
        for ancestor in self.module.ancestors(node):
            if ancestor is function:
                break
            if isinstance(ancestor, cst.For):
                if self.data.gives_data(ancestor.iter):
                    return
                yield ancestor
            if isinstance(ancestor, cst.While) and self.counter_limit(ancestor) is not None:
                yield ancestor
        sites = self.values.calls.sites(function) if function is not None else []
        if function is not None and len(sites) == 1 and function not in seen:
            yield from self._counts_around(sites[0], seen | {function})

    def _iterators(self, iterator: cst.BaseExpression) -> list[cst.CSTNode]:
        """Where an iterator is made: the expression itself, or what its name is bound to."""
        if not isinstance(iterator, cst.Name):
            return [iterator]
        bound = self.values.definitions.of(iterator)
        return [b if isinstance(b, cst.CSTNode) else b.value for b in bound]


def _is_one_more(statement: cst.CSTNode, counter: str) -> bool:
    match statement:
        case cst.AugAssign(
            target=cst.Name(value=name), operator=cst.AddAssign(), value=cst.Integer(value="1")
        ):
            return name == counter
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))],
            value=cst.BinaryOperation(
                left=cst.Name(value=other), operator=cst.Add(), right=cst.Integer(value="1")
            ),
        ):
            return name == other == counter
    return False
