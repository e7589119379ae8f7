"""HVD5, continued: the turns of a loop that cuts batches by itself, and what in them goes by their number."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

import libcst as cst

from ...analysis.effects import prints
from ...analysis.syntax import names_in, nodes_in
from ...frameworks.tensorflow.randomness import GENERATORS
from ...frameworks.tensorflow.turn_numbers import TurnNumber
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .questions import multiplied_rates, saves, set_rates

#: Why, where the ranks do not agree on an order.
INDEPENDENT = (
    "Drawn independently: each rank draws examples of its own, and N ranks share the steps; "
    "where they are rows of the data, one may be seen by several ranks, or by none."
)
#: Why, where a rate or weights are set by the number of a turn.
SET_ALIKE = "What is set by this must be the same on all ranks, each of which has a turn of its own: it goes by the first of these turns."

#: What would come of a test of a number of which each rank has its own.
ON_SOME = "what hangs on it would happen on some ranks and not on others"

#: Functions of numbers that do nothing else.
_OF_NUMBERS = frozenset({"min", "max", "int", "len", "abs", "float", "round", "bool", "divmod"})


class TurnShare(Rule):
    """Divide the turns of a loop that cuts batches out of arrays by itself, or draws them at random.

    A loop whose numbers cut the batches, `x[i:i + 32]`, gives each rank every N-th of them, so that each example is seen once
    an epoch; where they come in a random order, that is the same on all ranks (HVD103), in the next epoch too, whatever each has drawn in its
    turns. What hangs on the number of a turn (printed every ten, saved at the last, a rate set at the hundredth), in functions that run in
    the turn, too, happens on all ranks, at the step that has this turn; where a test of the number chooses the batches themselves, or reads
    numbers that are computed from it, the program is refused, or, if it only prints, that is told. Rates and weights that are computed from
    the number go by the first of the turns that the ranks take together. What goes by a number that comes with each batch, from a generator
    of the program's own, is refused. A loop that draws rows at random lets each rank draw
    its own, independently, from all the data, and its turns are divided (HVD501). So does one whose examples are drawn anew at each turn,
    and made of nothing else, and one that plays an episode of an environment at each turn and learns from it: each rank plays its own.
    An environment that is given a seed plays the same on all ranks, so that such steps stay whole (HVD504).
    """

    code = "HVD507"
    name = "share of a loop's turns"
    rationale = "Divided by agreement: each rank takes every N-th turn, and so every N-th batch that the loop cuts."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for start in range(0, len(x), 32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[start:start + 32] - model(x[start:start + 32])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for start in jhvd.shard_turns(range(0, len(x), 32)):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[start:start + 32] - model(x[start:start + 32])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for i in range(len(x) // 32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[32 * i:32 * i + 32] - model(x[32 * i:32 * i + 32])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                    if i == 100:
                        opt.learning_rate = 1e-4
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for i in jhvd.shard_turns(range(len(x) // 32)):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[32 * i:32 * i + 32] - model(x[32 * i:32 * i + 32])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                    if jhvd.any_turn(lambda i: i == 100, i):
                        opt.learning_rate = 1e-4
                """
            ),
        ),
        Example(
            program(
                """
                import numpy as np
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for step in range(1000):
                    rows = np.random.randint(0, len(x), 32)
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[rows] - model(x[rows])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import numpy as np
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                jhvd.draw_apart()
                for step in range(1000):
                    rows = np.random.randint(0, len(x), 32)
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y[rows] - model(x[rows])))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                jhvd.same_seed()
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for loop in dict.fromkeys(context.step_loops.cut.values()):
            turns = context.values.flow.unwrap_iteration(loop.iter)
            drawn = "".join(f", {each}" for each in self._generators(context, loop))
            edits = context.wrap(turns, f"{context.runtime('shard_turns')}(", f"{drawn})")
            yield Fix(turns, edits, needs=(HOROVOD, "shard_turns"))
            if context.step_loops.repeats(loop):
                yield Problem(
                    loop.iter,
                    "each turn of this loop takes several steps on a part of the data, and ranks take theirs side by side: as batches,"
                    " not as tasks or stages that are learned one after the other",
                    "for stages, divide each of them: by a tf.data.Dataset, or by a loop that cuts batches out of it",
                    "warning",
                )
            yield from self._asked_of_number(context, loop)
        yield from self._numbers_of_batches(context)
        for steps in dict.fromkeys(context.step_loops.drawn.values()):
            outer = self._outermost(context, steps)
            start = context.module.span(outer).start
            newline, indent = context.module.newline, context.module.indentation(start)
            own = ", ".join(context.step_loops.generators(steps))
            apart = f"{context.runtime('draw_apart')}({own}){newline}{indent}"
            again = [f"{context.runtime('same_seed')}({own})"]
            edits = (
                context.insert(start, apart, Layer.WAIT),
                context.after_statement(outer, again, Layer.BEHIND_BLOCK),
            )
            yield Fix(steps, edits, INDEPENDENT, (HOROVOD, "draw_apart", "same_seed"))
            yield from self._saved_by_number(context, steps)
            if steps in context.step_loops.played and (number := self._counted_on(context, steps)):
                yield Problem(
                    number,
                    "this goes by the number of the episode, and each rank plays an N-th of them",
                    f"multiply the number by {context.backend.size} where what it decides should go as far as in one process",
                    "warning",
                )

    def _asked_of_number(self, context: Context, loop: cst.For) -> Iterator[Finding]:
        """Tests of the turn's number: they hold for all ranks where they hold for one of the turns that these take together, so that
        all of them print, save, evaluate, stop or set a rate at the same step. What sets rates and weights goes by the first of these turns.
        """
        number = TurnNumber(context.values, loop)
        steps = [call for call, found in context.step_loops.cut.items() if found is loop]
        behind = {node for step in steps for node in context.values.flow.backward_slice(step)}
        data = {node.value for node in behind if isinstance(node, cst.Name)}
        tests = [
            (question, function)
            for body, function in number.bodies.items()
            for question in _questions(body)
            if question.test not in behind
            and not _is_of_own_batch(context, question, function, behind)
        ]
        told: list[cst.CSTNode] = []
        for question, function in sorted(tests, key=lambda found: not found[0].is_kept):
            if not number.is_behind(question.test):
                continue
            name = _asked_alone(number, question.test)
            compiled = function is not None and context.training.compiled.runs_compiled(function)
            if (
                name
                and not compiled
                and question.may_be_asked_of_all()
                and not question.sets() & data
            ):
                opening = f"{context.runtime('any_turn')}(lambda {name}: "
                edits = context.wrap(question.test, opening, f", {name})", Layer.TURN)
                yield Fix(question.test, edits, needs=(HOROVOD, "any_turn"))
                number = number.beside(question.test)
            elif not question.is_kept:
                told.append(question.around)
        for node in told:
            yield self._of_some_ranks(context, node, context.module.text(loop.target))
        yield from self._set_by_number(context, number, behind)

    def _numbers_of_batches(self, context: Context) -> Iterator[Problem]:
        """What goes by a number that comes beside the batches of a generator, or of a zip, which are divided with it."""
        data = context.data
        divided = {each.expression for each in data.batch_sources}
        divided |= {
            data.source(each) for each, is_fit in context.sharding.at_use.items() if not is_fit
        }
        for loop in context.values.index.loops:
            source = data.source(loop.iter)
            if not isinstance(loop, cst.For) or source not in divided:
                continue
            if loop.iter not in data.trained_over or not (
                parts := data.turns.numbered(loop, source)
            ):
                continue
            number = TurnNumber(context.values, loop, parts=parts)
            told = [
                question.around
                for body in number.bodies
                for question in _questions(body)
                if not question.is_kept and number.is_behind(question.test)
            ]
            weights = (setting.value for setting in context.settings.every)
            told += [
                value
                for value in (*set_rates(context), *multiplied_rates(context), *weights)
                if number.names_behind(value)
            ]
            for node in told:
                prints = _only_prints(context, node)
                yield Problem(
                    node,
                    "this goes by a number that comes with the batch, and each rank has every N-th batch: "
                    + ("rank 0 may have none of these" if prints else ON_SOME),
                    "count the steps in the loop, `for step, batch in enumerate(batches):`, and go by that",
                    "warning" if prints else "error",
                )

    def _set_by_number(
        self, context: Context, number: TurnNumber, behind: Set[cst.CSTNode]
    ) -> Iterator[Finding]:
        """Rates and weights that are computed from the turn's number must be the same on all ranks."""
        weights = (setting.value for setting in context.settings.every)
        names: dict[cst.Name, None] = {}
        for value in (*set_rates(context), *multiplied_rates(context), *weights):
            found = number.names_behind(value)
            if not behind.isdisjoint(found):
                yield Problem(
                    value,
                    "this goes by the number of the turn, of which each rank has another, and so does what is computed on the way to the batch",
                    "compute the two apart from one another",
                )
            else:
                names |= dict.fromkeys(found)
        for name in names:
            edits = context.wrap(name, f"{context.runtime('first_turn')}(", ")")
            yield Fix(name, edits, SET_ALIKE, (HOROVOD, "first_turn"))

    def _of_some_ranks(self, context: Context, node: cst.CSTNode, number: str) -> Problem:
        """What some turns do, and cannot be done by all ranks at the same step."""
        told = "this goes by the number of the turn, and each rank has an N-th of the turns: "
        if _only_prints(context, node):
            return Problem(
                node,
                f"{told}rank 0 may have none of these",
                f"ask for the number of the loop itself, `if {number} % 10 == 0:`, or count steps in a name of its own",
                "warning",
            )
        return Problem(
            node,
            f"{told}{ON_SOME}",
            "cut the batches by a dataset, `tf.data.Dataset.from_tensor_slices(…).batch(…)`, or do this before or behind the loop",
        )

    def _saved_by_number(self, context: Context, steps: cst.CSTNode) -> Iterator[Problem]:
        """What is saved at turns that their number tells: at every hundredth, at the last."""
        if not isinstance(steps, cst.For):
            return
        numbers = {name.value for name in names_in(steps.target)}
        for test in nodes_in(steps.body):
            if not isinstance(test, cst.If) or not numbers & {n.value for n in names_in(test.test)}:
                continue
            if any(isinstance(n, cst.Call) and saves(context, n) for n in nodes_in(test.body)):
                yield Problem(
                    test,
                    "what is saved here goes by the number of the turn, and each rank has an N-th of the turns: the last of"
                    " these may not be among those of rank 0",
                    "save once more behind the loop",
                    "warning",
                )

    def _counted_on(self, context: Context, steps: cst.CSTNode) -> cst.CSTNode | None:
        """Where the number of a turn is computed with in its loop: a chance of exploring that goes down."""
        if not isinstance(steps, cst.For) or not isinstance(steps.target, cst.Name):
            return None
        inside = (n for n in nodes_in(steps.body) if isinstance(n, cst.BinaryOperation))
        graded = (n for n in inside if not isinstance(n.operator, cst.Modulo))
        number = steps.target.value
        return next((n for n in graded if any(m.value == number for m in names_in(n))), None)

    def _generators(self, context: Context, loop: cst.For) -> list[str]:
        """The random generators of the program's own that the turns of a loop draw from, as they are called there."""
        found: dict[str, None] = {}
        for call in context.values.index.calls:
            if not isinstance(call.func, cst.Attribute) or loop not in context.module.ancestors(
                call
            ):
                continue
            generator = call.func.value
            made = {value.name for value in context.values.of(generator)}
            named = isinstance(generator, (cst.Name, cst.Attribute)) and made & GENERATORS
            if named and all(
                loop not in context.module.ancestors(value.node)
                for value in context.values.of(generator)
                if value.node is not None
            ):
                found[context.module.text(generator)] = None
        return list(found)

    def _outermost(self, context: Context, loop: cst.CSTNode) -> cst.CSTNode:
        """The outermost loop around one, in its function."""
        function, outer = context.module.function_of(loop), loop
        for node in context.module.ancestors(loop):
            if node is function:
                break
            if isinstance(node, (cst.For, cst.While)):
                outer = node
        return outer


@dataclass(frozen=True)
class _Question:
    """An expression that says yes or no, and the statement or expression in which something hangs on that.

    Attributes:
        is_kept: the answer is kept in a name, returned or passed on, and nothing hangs on it there.
    """

    test: cst.BaseExpression
    around: cst.CSTNode
    is_kept: bool = False

    def may_be_asked_of_all(self) -> bool:
        """Whether the test can be put into a lambda, and no turn ends by what it says."""
        kept = (cst.NamedExpr, cst.Lambda, cst.Await)
        goes_on = not any(isinstance(n, cst.Continue) for n in nodes_in(self.around))
        is_asked = not any(isinstance(n, kept) for n in nodes_in(self.test))
        return is_asked and goes_on and not isinstance(self.around, cst.While)

    def sets(self) -> set[str]:
        """The names that are assigned to in what hangs on it."""
        return {name.value for name in _assigned_in(self.around)}


def _questions(node: cst.CSTNode) -> Iterator[_Question]:
    """The questions in a function or a loop; of one within another, the outer."""
    match node:
        case (
            cst.If(test=test) | cst.IfExp(test=test) | cst.While(test=test) | cst.CompIf(test=test)
        ):
            yield _Question(test, node)
            for child in node.children:
                if child is not test:
                    yield from _questions(child)
            return
        case (
            cst.Assign(value=cst.BaseExpression() as value)
            | cst.Return(value=cst.BaseExpression() as value)
            | cst.Arg(value=cst.BaseExpression() as value)
        ) if _is_question(value):
            yield _Question(value, node, is_kept=True)
            return
        case cst.BooleanOperation(left=left, right=right) if _is_question(left):
            yield _Question(left, node)
            yield from _questions(right)
            return
    for child in node.children:
        yield from _questions(child)


def _is_question(node: cst.BaseExpression) -> bool:
    """Whether an expression compares, and calls nothing that may do more."""
    match node:
        case cst.BooleanOperation(left=left, right=right):
            return _is_question(left) and _is_question(right)
        case cst.UnaryOperation(operator=cst.Not()) | cst.Comparison():
            calls = (n for n in nodes_in(node) if isinstance(n, cst.Call))
            return all(
                isinstance(call.func, cst.Name) and call.func.value in _OF_NUMBERS for call in calls
            )
    return False


def _is_of_own_batch(
    context: Context,
    question: _Question,
    function: cst.FunctionDef | None,
    behind: Set[cst.CSTNode],
) -> bool:
    """Whether a test only chooses what a function of a step computes in that turn: of each rank's own batch."""
    if function is None or behind.isdisjoint(context.values.calls.sites(function)):
        return False
    return all(
        isinstance(n, cst.Return | cst.Pass)
        or (isinstance(n, cst.Assign) and all(isinstance(t.target, cst.Name) for t in n.targets))
        for n in nodes_in(question.around)
        if isinstance(n, cst.BaseSmallStatement)
    )


def _asked_alone(number: TurnNumber, test: cst.BaseExpression) -> str:
    """The name by which a test asks the number itself, if it reads nothing else that is computed from it; else ''."""
    attributes = {id(n.attr) for n in nodes_in(test) if isinstance(n, cst.Attribute)}
    keywords = {id(n.keyword) for n in nodes_in(test) if isinstance(n, cst.Arg)}
    read = [n for n in names_in(test) if id(n) not in attributes | keywords and number.is_behind(n)]
    names = {n.value for n in read}
    return names.pop() if len(names) == 1 and all(map(number.is_it, read)) else ""


def _assigned_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The names that are assigned to in a statement."""
    for n in nodes_in(node):
        targets = [each.target for each in n.targets] if isinstance(n, cst.Assign) else []
        targets += [n.target] if isinstance(n, cst.AugAssign) else []
        yield from (target for target in targets if isinstance(target, cst.Name))


def _only_prints(context: Context, node: cst.CSTNode) -> bool:
    """Whether nothing but printing hangs on a test."""
    if not isinstance(node, cst.If) or node.orelse is not None:
        return False
    lines = (
        line.body if isinstance(line, cst.SimpleStatementLine) else [line]
        for line in node.body.body
    )
    return all(
        isinstance(x, cst.Expr)
        and isinstance(x.value, cst.Call)
        and prints(context.values, x.value)
        for line in lines
        for x in line
    )


RULES: tuple[type[Rule], ...] = (TurnShare,)
