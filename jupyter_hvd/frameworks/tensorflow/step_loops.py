"""Counts of training steps: loops that count them, and data that no count limits."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Set
from functools import cached_property

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import ELEMENT, Binding
from ...analysis.library import Kind
from ...analysis.syntax import argument, method
from . import tf_api
from .pipelines import Pipelines
from .randomness import DRAWING_ROWS, GENERATORS, Randomness
from .roles import Role
from .training_data import TrainingData
from .turns import cuts, grows

#: What computes, by its name, and what of that reads data.
_COMPUTING = ("builtins.", "math.", "numpy.", "random.", "tensorflow.")
_READING = re.compile(
    r"numpy\.(load|genfromtxt|fromfile|memmap)|builtins\.(open|input)|get_file|\bdatasets?\b|"
    r"^tensorflow\.(data|io|keras\.preprocessing)\.|_from_directory|load_(img|data)"
)
#: What gives a batch, by its name, and whose functions of such names are known.
_BATCH = re.compile(r"batch|draw|fetch|next|sample", re.IGNORECASE)
_KNOWN = (*_COMPUTING, *tf_api.INERT)
#: What makes environments, in which an agent plays episodes.
_ENVIRONMENTS = frozenset({"gym", "gymnasium", "suite_gym", "pettingzoo"})
#: What takes rows by their numbers, as brackets do.
_TAKING = frozenset({"tensorflow.gather", "tensorflow.slice", "numpy.take"})


class StepLoops:
    """The loops of one module whose turns are training steps."""

    def __init__(self, data: TrainingData, pipelines: Pipelines, randomness: Randomness) -> None:
        self.data = data
        self._randomness = randomness
        self.training = data.training
        self.values = data.values
        self.module = data.module
        self._turns = data.turns
        self._pipelines = pipelines
        self._slices: dict[cst.Call, dict[cst.CSTNode, None]] = {}

    @cached_property
    def loops(self) -> list[cst.For | cst.While]:
        """The loops over a count that draw one batch a turn with `next`: their turns are steps.

        Of the loops around a draw, the innermost that runs every update of the outermost: within
        the steps of a GAN, the turns of its critic stay as many as they are.
        """
        loops_of = [
            self._counts_along((update.call, *site.chain))
            for update, sites in self.data.step_sites
            for site in sites
        ]
        trained = {
            data
            for call, iterables in self.data.loop_data.items()
            if call not in self.whole
            for data in iterables
        }
        found: dict[cst.For | cst.While, None] = {}
        for drawn in self.values.index.calls:
            if self.values.qualified(drawn.func) != "builtins.next" or not drawn.args:
                continue
            # What is made for this draw alone, `next(iter(data))`, gives each turn a batch as well.
            made = [
                node
                for node in self.iterators(drawn.args[0].value)
                if drawn not in self.module.ancestors(node)
            ]
            around = [
                loop
                for loop in self._counts_around(drawn, frozenset())
                if not any(loop in self.module.ancestors(node) for node in made)
            ]
            data = drawn.args[0].value
            if not around or not (data in trained or self._pipelines.of(data)):
                continue
            turns = [loops for loops in loops_of if around[-1] in loops]
            steps = [loop for loop in around if turns and all(loop in loops for loops in turns)]
            found.update(dict.fromkeys(steps[:1]))
        found.update(dict.fromkeys(self.drawn.values()))
        outer = {ancestor for loop in found for ancestor in self.module.ancestors(loop)}
        return [loop for loop in found if loop not in outer]  # else epochs and steps were divided

    # Batches without a dataset

    @cached_property
    def cut(self) -> dict[cst.Call, cst.For]:
        """The steps whose batches a loop cuts out of arrays, `x[i:i + n]`, with the loop whose numbers they are cut by."""
        found = {}
        for call, around in self._countings.items():
            used = set(self.behind(call))
            loops = [loop for loop in around if isinstance(loop, cst.For)]
            whole = any(
                self._turns.numbers(x.iter) and not self._turns.counts(x.iter) for x in loops
            )
            taken = [
                node
                for node in used
                if isinstance(node, cst.Subscript) and self._is_of_data(node, whole)
            ]
            by = {
                node
                for cut in taken
                for part in cut.slice
                for node in self.values.flow.backward_slice(part)
            }
            parts = {x.iter for x in loops if x.iter in used and self._turns.parts(x.iter)}
            loop = next((loop for loop in loops if loop.iter in by | parts), None)
            if loop is not None:
                found[call] = loop
        inner = {a for loop in found.values() for a in self.module.ancestors(loop)}
        found = {call: loop for call, loop in found.items() if loop not in inner}
        return found | self._noisy_beside(set(found.values()))

    def _noisy_beside(self, divided: set[cst.For]) -> dict[cst.Call, cst.For]:
        """The steps in loops that are divided which are given noise and nothing else, as the generator of a GAN."""
        noise = set(self._randomness.draws_of_noise)
        return {
            call: loop
            for call, around in self._countings.items()
            if self._draws(call, around[0], noise) and self._is_made_up(call, around[0])
            for loop in around
            if isinstance(loop, cst.For) and loop in divided
        }

    def repeats(self, loop: cst.For) -> bool:
        """Whether each turn of a divided loop takes several steps on what it cuts, by a loop within it, but over variables."""
        steps = [call for call, found in self.cut.items() if found is loop]
        over = self.training.variable_loops
        return all(next(x for x in self._countings[c] if x not in over) is not loop for c in steps)

    @cached_property
    def drawn(self) -> dict[cst.Call, cst.For | cst.While]:
        """The steps whose batches a loop draws at random, out of NumPy's or Python's own generator, with the loop.

        Steps beside these that are given noise, as the generator of a GAN, draw it for each rank as well. Where examples
        are made of noise and nothing else, each turn's are new, and there are no data to be divided; likewise where a turn plays
        an episode.
        """
        around = {c: loops for c, loops in self._countings.items() if c not in self.cut}
        noise = set(self._randomness.draws_of_noise)
        drawing = {call for call, loops in around.items() if self._draws_examples(call, loops[0])}
        noisy = {call for call, loops in around.items() if self._draws(call, loops[0], noise)}
        innermost = {around[call][0] for call in drawing | noisy}
        # Within the steps of a GAN the turns of its critic stay as many as they are.
        steps = {
            call: next(loop for loop in reversed(around[call]) if loop in innermost)
            for call in drawing | noisy
        }
        found = {steps[call] for call in drawing}
        return {call: loop for call, loop in steps.items() if loop in found}

    def _draws_examples(self, call: cst.Call, loop: cst.For | cst.While) -> bool:
        """Whether each turn of a loop draws rows for a step, or all that it is given, or plays an episode."""
        own = {d for d in self._randomness.draws_of_generators if self.named_at(d, loop)}
        return (
            self._draws(call, loop, own.union(self._randomness.draws_of_rows))
            or (
                self._draws(call, loop, set(self._randomness.draws_apart))
                and self._is_made_up(call, loop)
            )
            or loop in self.played
        )

    def generators(self, loop: cst.For | cst.While) -> list[str]:
        """The generators of the program's own that rows are drawn from in the turns of a loop, as they are called there."""
        steps = [call for call, found in self.drawn.items() if found is loop]
        names = (
            self.named_at(draw, loop)
            for call in steps
            for draw in self._randomness.draws_of_generators
            if draw in (behind := self.behind(call)) and self._is_within(draw, loop, behind)
        )
        return [name for name in dict.fromkeys(names) if name is not None]

    def named_at(self, draw: cst.Call, loop: cst.CSTNode) -> str | None:
        """What the generator that a call draws from is called around a loop before which it is made; None if that is not seen."""
        generator, module = self._randomness.draws_of_generators[draw], self.module
        around = [loop, *(a for a in module.ancestors(loop) if isinstance(a, cst.For | cst.While))]
        made = [value.node for value in self.values.of(generator)]
        if any(n is None or set(around) & set(module.ancestors(n)) for n in made):
            return None
        here, there = module.function_of(loop), module.function_of(draw)
        if here is there:
            return module.text(generator)
        if isinstance(generator, cst.Name):
            bound = [
                b.target for b in self.values.definitions.of(generator) if isinstance(b, Binding)
            ]
            is_global = all(t is not None and module.function_of(t) is None for t in bound)
            return generator.value if bound and is_global else None
        owners = [module.class_of(function) if function else None for function in (here, there)]
        is_own = module.text(generator.value) == "self" and owners[0] is owners[1] is not None
        return module.text(generator) if is_own else None

    @cached_property
    def played(self) -> frozenset[cst.For | cst.While]:
        """The loops that play an episode at each turn, other ones on each rank, and learn from it."""
        if any(map(self._seeds_environment, self.values.index.calls)):
            return frozenset()
        return frozenset(
            loops[0]
            for call, loops in self._countings.items()
            if call not in self.cut
            and any(
                self.is_environment_s(node) and self._is_within(node, loops[0], self.behind(call))
                for node in self.behind(call)
            )
        )

    def is_environment_s(self, node: cst.CSTNode) -> bool:
        """Whether a node asks an environment of another library for a state: without a seed it draws by itself."""
        if not isinstance(node, cst.Call) or method(node) not in ("reset", "step"):
            return False
        assert isinstance(node.func, cst.Attribute)
        made = self.values.of(node.func.value)
        return any(value.name.partition(".")[0] in _ENVIRONMENTS for value in made)

    def _seeds_environment(self, call: cst.Call) -> bool:
        """Whether a call gives an environment a seed."""
        if method(call) == "seed" and isinstance(call.func, cst.Attribute):
            made = self.values.of(call.func.value)
            return any(value.name.partition(".")[0] in _ENVIRONMENTS for value in made)
        given = argument(call, "seed")
        name = self.values.qualified(call.func).partition(".")[0]
        return given is not None and (name in _ENVIRONMENTS or method(call) == "reset")

    @cached_property
    def whole(self) -> frozenset[cst.Call]:
        """The steps that are seen to take the same data at every turn: nothing of which a rank could take a part by turns."""
        unseen = {call for call, given in self.data.unseen_loops.items() if given is None}
        unseen -= self.cut.keys() | self.drawn.keys()
        return frozenset(
            call for call in unseen if self._is_followed(call) and self._is_whole(call)
        )

    def _is_followed(self, call: cst.Call) -> bool:
        """Whether it is seen what a step is given: what it runs in is called, through no lambda, and with no `*args`."""
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

    def _is_whole(self, call: cst.Call) -> bool:
        """Whether no loop around a step runs over data, and no turn takes rows by its number, or draws them."""
        if not all(map(self._is_of_settings, self.data.loop_data[call])):
            return False
        around, given = self._counts_of(call), self.behind(call)
        drawn = [node for node in given if self._is_drawn_elsewhere(node)]
        if any(self._is_within(node, loop, given) for node in drawn for loop in around):
            return False
        loops = [
            loop.iter
            for loop in around
            if isinstance(loop, cst.For) and loop not in self.training.variable_loops
        ]
        for node in given:
            match node:
                case cst.Subscript(slice=parts):
                    index: list[cst.CSTNode] = [*parts]
                case cst.Call() if self.values.qualified(node.func) in _TAKING:
                    index = [arg.value for arg in node.args[1:]]
                case cst.Call(func=cst.Attribute(value=generator)) if method(node) in DRAWING_ROWS:
                    if {value.name for value in self.values.of(generator)} & GENERATORS:
                        return False
                    continue
                case _:
                    continue
            behind = {n for part in index for n in self.values.flow.backward_slice(part)}
            if any(loop in behind for loop in loops):
                return False
        return True

    def _is_drawn_elsewhere(self, node: cst.CSTNode) -> bool:
        """Whether another module gives a batch, to judge by its name: `loader.get_batch(32)`."""
        if not isinstance(node, cst.Call):
            return False
        if method(node) == "__next__":
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
        if any(map(self.data.gives_batches, self.values.of(inner))):
            return False
        kinds = {value.kind for value in self.values.of(inner, (ELEMENT,))}
        return bool(kinds) and not kinds & {
            *(Kind.UNKNOWN, Kind.OTHER, Kind.CONTAINER, Kind.GENERATOR),
            Role.DATASET,
        }

    def _draws(self, call: cst.Call, loop: cst.CSTNode, draws: Set[cst.Call]) -> bool:
        """Whether one of these draws, made at each turn of the loop, reaches a step."""
        behind = self.behind(call)
        return any(node in draws and self._is_within(node, loop, behind) for node in behind)

    def _is_made_up(self, call: cst.Call, loop: cst.CSTNode) -> bool:
        """Whether a step is given nothing but what is computed, and drawn anew at each turn of the loop."""
        behind = self.behind(call)
        return all(self._is_computed(node, loop, behind) for node in behind)

    def _is_computed(
        self, node: cst.CSTNode, loop: cst.CSTNode, behind: Collection[cst.CSTNode]
    ) -> bool:
        """Whether no data come in by an expression: a file, something unknown, numbers drawn before the loop."""
        match node:
            case cst.Call():
                if self._randomness.is_draw(node) and not self._is_within(node, loop, behind):
                    return False
                name = self.values.qualified(node.func)
                if name:
                    return name.startswith(_COMPUTING) and _READING.search(name) is None
                return isinstance(node.func, cst.Attribute) or self._is_known(node.func)
            case cst.Name():
                parent = self.module.parent(node)
                is_word = isinstance(parent, (cst.Attribute, cst.Arg)) and (
                    node in (getattr(parent, "attr", None), getattr(parent, "keyword", None))
                )
                return is_word or self._is_known(node)
        return True

    def _is_known(self, node: cst.BaseExpression) -> bool:
        """Whether it is seen what an expression holds, or what that is made from."""
        kinds = self.values.kinds(node)
        known = bool(kinds) and Kind.UNKNOWN not in kinds
        return known or bool(self.values.flow.predecessors(node))

    @cached_property
    def _countings(self) -> dict[cst.Call, list[cst.For | cst.While]]:
        """The steps of which no data are seen, with the counting loops around them, if there are only such inside."""
        found = {}
        for call, data in self.data.unseen_loops.items():
            around = self._counts_of(call)
            if data is None and around and not self._between(call, around[0]):
                found[call] = around
        return found

    def _counts_of(self, call: cst.Call) -> list[cst.For | cst.While]:
        """The counting loops around a step, up to one that makes anew what the step trains."""
        updates = {
            update.call
            for update, sites in self.data.step_sites
            if any(site.call is call for site in sites)
        }
        around = self._counts_around(call, frozenset())
        return list(
            itertools.takewhile(lambda loop: not self.data.anew.is_made_in(updates, loop), around)
        )

    def _between(self, call: cst.Call, loop: cst.For | cst.While) -> bool:
        """Whether a loop of another kind stands between a step and the loop, so that its turns are not steps."""
        for node in self.module.ancestors(call):
            if node is loop:
                return False
            if isinstance(node, (cst.For, cst.While, cst.BaseComp)):
                return True
        return False

    def behind(self, call: cst.Call) -> dict[cst.CSTNode, None]:
        """What a step and the updates that it comes to are computed from."""
        found = self._slices.get(call)
        if found is None:
            updates = (u for u, sites in self.data.step_sites if call in (s.call for s in sites))
            calls = dict.fromkeys((call, *(update.call for update in updates)))
            slices = map(self.values.flow.backward_slice, calls)
            found = self._slices[call] = dict.fromkeys(n for each in slices for n in each)
        return found

    def _is_of_data(self, node: cst.Subscript, by_numbers: bool = False) -> bool:
        """Whether a subscript takes a part of an array, or one of several such parts, not one of several models or rates.

        Args:
            by_numbers: an index may be the numbers of rows.
        """
        if grows(node):
            return False
        takes = by_numbers or cuts(node) or self._by_slice(node) or self._holds_cuts(node.value)
        return takes and not self.values.kinds(node.value) & {
            Role.MODEL,
            Role.OPTIMIZER,
            Role.VARIABLE,
        }

    def _by_slice(self, node: cst.Subscript) -> bool:
        """Whether a subscript takes rows by a slice that has a name: `x[rows]`."""
        indices = [e.slice.value for e in node.slice[:1] if isinstance(e.slice, cst.Index)]
        return any(map(self._turns.is_slice, indices))

    def _holds_cuts(self, batches: cst.BaseExpression) -> bool:
        """Whether the elements are parts of arrays, or several such parts, and nothing else, or batches of a `Sequence`."""
        if self._turns.parts(batches) or self.data.is_sequence(batches):
            return True
        pending: list[Source] = [(batches, (ELEMENT,))]
        seen, found = set[Source](), False
        while pending:
            node, path = pending.pop()
            if (node, path) in seen:
                continue
            seen.add((node, path))
            if (
                not path
                and isinstance(node, cst.Subscript)
                and (cuts(node) or self._by_slice(node))
            ):
                found = True
                continue
            sources = self.values.flow.predecessors(node, path)
            if not path and isinstance(node, (cst.Tuple, cst.List)):
                sources = [(element.value, ()) for element in node.elements]
            elif not sources and not (isinstance(node, cst.List) and not node.elements):
                return False
            pending += sources
        return found

    def _is_within(
        self,
        node: cst.CSTNode,
        loop: cst.CSTNode,
        behind: Collection[cst.CSTNode],
        seen: frozenset[cst.CSTNode] = frozenset(),
    ) -> bool:
        """Whether a node runs within a loop, itself or by the calls of its function: those that are behind a step, if any are."""
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
        ups = [
            small
            for line in lines
            for small in line.body
            if (up := is_one_more(small)) is not None and up.value == name
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

    def _counts_along(self, chain: tuple[cst.Call, ...]) -> list[cst.For | cst.While]:
        """The same around an update and the calls that lead to it, one after the other."""
        found: dict[cst.For | cst.While, None] = {}
        for call in chain:
            found.update(dict.fromkeys(self._counts_around(call, frozenset())))
            loop = self.module.enclosing(call, (cst.FunctionDef, cst.For))
            while isinstance(loop, cst.For):
                if self.data.gives_data(loop.iter):
                    return list(found)
                loop = self.module.enclosing(loop, (cst.FunctionDef, cst.For))
        return list(found)

    def iterators(self, iterator: cst.BaseExpression) -> list[cst.CSTNode]:
        """Where an iterator is made: the expression itself, or what its name, attribute or container is bound to."""
        match iterator:
            case cst.Name():
                bound = self.values.definitions.of(iterator)
                return [b if isinstance(b, cst.CSTNode) else b.value for b in bound]
            case cst.Attribute() if bindings := self.values.flow.bindings_of(iterator):
                return [b.value for b in bindings]
            case cst.Subscript(value=container):
                return self.iterators(container)
        return [iterator]


def is_one_more(statement: cst.CSTNode | None) -> cst.Name | None:
    """The name that a statement makes greater by one."""
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
