"""HVD3: tapes average gradients; the first update is followed by a broadcast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import Kind
from ...analysis.reach import conditions, leaving_tests, tests_around
from ...analysis.syntax import argument, method
from ...analysis.uniformity import is_uniform, tests_of
from ...frameworks.tensorflow.agreement import VARIABLE_LISTS
from ...frameworks.tensorflow.compiled import EagerSite
from ...frameworks.tensorflow.lifting import lift
from ...frameworks.tensorflow.settings import Setting
from ...frameworks.tensorflow.tapes import TrainingTape
from ...frameworks.tensorflow.turns import is_range
from ...frameworks.tensorflow.updates import Update, whole_list
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .choices import answers_to_callbacks, choices, clocks_of_callbacks
from .context import HOROVOD, Context, Rule
from .questions import (
    decided_from,
    is_of_environment,
    is_seen_by_rank,
    kept_writes,
    restored_again,
    set_rates,
)

#: The runtime's function by which a tape averages.
WRAPPER = "DistributedGradientTape"


class Tape(Rule):
    """Average the gradients of training tapes with `jhvd.DistributedGradientTape`.

    Only a tape whose gradients reach `apply_gradients` is wrapped. The gradients of a
    gradient penalty, of an adversarial example or of a saliency map belong to one
    rank's own examples: averaging them is wrong. A tape that serves both is wrapped at the
    call that trains; of one that is asked inside its own `with` the gradients are averaged.
    Gradients may come in any structure, and of the variables of any Keras.
    """

    code = "HVD301"
    name = "distributed tape"
    rationale = (
        "Gradients that change weights are averaged over all ranks, so that all weights stay equal."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    with tf.GradientTape() as attack:
                        attack.watch(x)
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    x += 0.1 * tf.sign(attack.gradient(loss, x))
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    with tf.GradientTape() as attack:
                        attack.watch(x)
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    x += 0.1 * tf.sign(attack.gradient(loss, x))
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    tape = jhvd.DistributedGradientTape(tape)
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            "The tape of the adversarial example is left alone.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        at_call: dict[cst.Call, TrainingTape] = {}
        for tape in context.training.training_tapes:
            if self._can_wrap_after_block(context, tape):
                assert tape.block is not None
                assert tape.name is not None
                name = tape.name.value
                line = f"{name} = {context.runtime(WRAPPER)}({name}{context.compression})"
                edit = self._after_block(context, tape.block, line)
                yield Fix(tape.block, (edit,), needs=(HOROVOD, WRAPPER))
            else:
                at_call.update((call, tape) for call in tape.training)
        for call in context.training.training_gradients:
            tape_of = at_call.get(call)
            if tape_of and any(a is tape_of.block for a in context.module.ancestors(call)):
                yield self._average(context, call)
            elif tape_of:
                yield self._wrap(context, call)

    def _average(self, context: Context, call: cst.Call) -> Fix:
        """A tape that still records cannot be wrapped; what it gives can be averaged."""
        edits = context.wrap(
            call, f"{context.runtime('average_gradients')}(", f"{context.compression})"
        )
        return Fix(call, edits, needs=(HOROVOD, "average_gradients"))

    def _can_wrap_after_block(self, context: Context, tape: TrainingTape) -> bool:
        if tape.block is None or tape.name is None or tape.others:
            return False
        block = context.module.span(tape.block)
        function = context.module.function_of(tape.block)
        for call in tape.training:
            start = context.module.span(call).start
            if context.module.function_of(call) is function and start < block.end:
                return False
            others = [
                t for t in context.training.training_tapes if t is not tape and call in t.training
            ]
            if any(t.others or t.block is None for t in others):
                return False
        return True

    def _after_block(self, context: Context, block: cst.With, line: str) -> Edit:
        indent = context.module.indentation(context.module.span(block).start)
        last = last_line(block)
        return context.insert(
            context.module.line_end(context.module.span(last).end),
            f"{context.module.newline}{indent}{line}",
            Layer.TAPE,
        )

    def _wrap(self, context: Context, call: cst.Call) -> Fix:
        """The tape at the call that trains, where others ask it too."""
        assert isinstance(call.func, cst.Attribute)
        before, after = f"{context.runtime(WRAPPER)}(", f"{context.compression})"
        edits = context.wrap(call.func.value, before, after)
        return Fix(call, edits, needs=(HOROVOD, WRAPPER))


def last_line(block: cst.CSTNode) -> cst.CSTNode:
    """The last simple statement inside a compound statement."""
    body = getattr(block, "body", None)
    orelse = getattr(block, "finalbody", None) or getattr(block, "orelse", None)
    if orelse is not None:
        return last_line(orelse)
    if isinstance(block, cst.Try | cst.TryStar) and block.handlers:
        return last_line(block.handlers[-1])
    if isinstance(block, cst.Match):
        return last_line(block.cases[-1])
    if isinstance(body, cst.IndentedBlock):
        return last_line(body.body[-1])
    return block


class AverageUpdate(Rule):
    """Average what an update applies, where it cannot be seen that it is averaged already.

    Gradients that were added up in variables, kept in a list, or given by a function that this program does not show, are averaged
    right before they are applied, which is always right: what is the same on all ranks stays as it is. So is a step whose length
    each rank finds by its own batch, in a line search. A gradient that was
    clipped before on each rank by itself is then the average of clipped gradients, not the clipped average.
    The rate of an update by hand is the program's own, and is not multiplied by the number of ranks.
    """

    code = "HVD305"
    name = "average at the update"
    rationale = "Where these come from cannot be followed to a tape, so they are averaged where they change weights."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    opt.apply_gradients(zip(gradients_of(model, x, y), model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    opt.apply_gradients([(jhvd.average_gradients(gradient), variable) for gradient, variable in zip(gradients_of(model, x, y), model.trainable_variables)])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        averaged = context.runtime("average_gradients")
        for update in context.training.updates:
            if update.applied is None:
                continue
            value, path = update.applied
            alike = context.training.agreement.is_equal_but_for(
                value, context.alike.compiled, path, trained=True
            )
            if alike and not _is_decided(context, update):
                continue
            if len(path) > 1:  # pairs
                names = [context.fresh(name) for name in ("gradient", "variable")]
                before = f"[({averaged}({names[0]}), {names[1]}) for {names[0]}, {names[1]} in "
                edits = context.wrap(value, before, "]", Layer.WRAP)
            else:
                edits = context.wrap(value, f"{averaged}(", ")", Layer.WRAP)
            yield Fix(value, edits, needs=(HOROVOD, "average_gradients"))


def _is_decided(context: Context, update: Update) -> bool:
    """Whether ranks may each decide by themselves how far a step goes: `while loss(w - a * g) > bound: a *= 0.5`."""
    agreement, values = context.training.agreement, context.values
    around = {
        a.test for a in context.module.ancestors(update.call) if isinstance(a, (cst.If, cst.While))
    }
    behind = (
        values.flow.backward_slice(update.applied[0], context.training.gradients.is_gradient)
        if update.applied
        else ()
    )
    tests = {t: None for n in behind if isinstance(n, cst.Name) for t in tests_of(values, n)}
    return any(test not in around and not agreement.is_equal(test) for test in tests)


#: Why, where the steps cannot be parted.
BEFORE = "A whole epoch is compiled, so all ranks take rank 0's weights before it."


class Broadcast(Rule):
    """After an optimizer's first update, take rank 0's weights and optimizer state on every rank.

    Ranks start with weights of their own, so they must be made equal once, when all
    variables exist: a model built by its first batch and the optimizer's slots
    exist only after the first update. Inside the step a broadcast would
    run never, or at every step, once the step is compiled. So the
    broadcast stands after the call that runs the step, outside every
    `tf.function`; `jhvd.broadcast_once` does nothing when it is called again. A model that is not
    trained, but that the loss goes through, is broadcast too. Where a whole epoch is compiled, and
    no place is left between its steps, `jhvd.broadcast_before` stands in front of it: it stops where a model has no weights yet.
    A step inside a larger expression, `[step(batch) for batch in data]`, is handed through `jhvd.broadcast_behind`.
    """

    code = "HVD302"
    name = "broadcast once"
    rationale = "All ranks go on from rank 0's weights and optimizer state, once, after the first update, when all variables exist."
    function = "broadcast_once"
    before = "broadcast_before"
    behind = "broadcast_behind"
    partial = True
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


                @tf.function
                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))


                for x, y in dataset:
                    step(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


                @tf.function
                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))


                for x, y in dataset:
                    step(x, y)
                    jhvd.broadcast_once(opt, model)
                """
            ),
            "The step is compiled, so the broadcast follows its call.",
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))


                @tf.function
                def epoch():
                    for x, y in dataset:
                        step(x, y)


                epoch()
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)


                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))


                @tf.function
                def epoch():
                    for x, y in dataset:
                        step(x, y)


                jhvd.broadcast_before(opt, model)
                epoch()
                jhvd.broadcast_once(opt, model)
                """
            ),
            "A whole epoch in one compiled call leaves no place between its steps, so all ranks begin it alike.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        placed: dict[
            tuple[cst.CSTNode, str], list[str]
        ] = {}  # by statement, or call, and optimizer
        for update, sites in context.training.own_updates:
            if not sites and not is_replaced(context, update.call):
                yield Problem(
                    update.call,
                    "nothing in this program calls the function that applies these gradients",
                    "call it in this file, outside every tf.function, so that the weights can be broadcast after its first call",
                    "info" if context.options.open_ended else "error",
                )
            for site in sites:
                yield from self._place(context, update, site, placed)
        yield from self._write(context, placed)

    def _place(
        self,
        context: Context,
        update: Update,
        site: EagerSite,
        placed: dict[tuple[cst.CSTNode, str], list[str]],
    ) -> Iterator[Finding]:
        statement: cst.CSTNode = context.statement_of(site.call) or site.call
        loop = compiled_loop(context, update, site)
        if loop is not None and not self._is_divided(context, loop, statement):
            yield Problem(
                loop,
                "the loop over the batches is compiled, so the ranks would train apart until its end",
                "move the loop out of the tf.function and leave one step inside",
            )
            return
        optimizer = (
            "None" if update.optimizer is None else lift(context.values, update.optimizer, site)
        )
        trained = trained_texts(context, update, site)
        if update.is_of_model:
            optimizer = optimizer and f"{optimizer}.optimizer"
        elif optimizer and isinstance(cst.parse_expression(optimizer), cst.Call):
            optimizer = (
                "None"  # made where it is passed, it has no name here, and keeps nothing yet
            )
        if optimizer is None or trained is None:
            what = "which optimizer" if optimizer is None else "which variables"
            yield Problem(
                update.call,
                f"it cannot be seen from the calling loop {what} this step changes",
                "pass the model and the optimizer to the step by name, or keep them at the top level",
            )
            return
        texts = placed.setdefault((statement, optimizer), [])
        passed = context.untrained.broadcast_with(update, site)
        texts += [text for text in (*trained, *passed) if text not in texts]
        if loop is not None and self.before:
            yield self._ahead(context, statement, [optimizer, *texts])

    def _is_divided(self, context: Context, loop: cst.CSTNode, statement: cst.CSTNode) -> bool:
        """Whether a compiled loop takes its batches from a dataset that is divided where it is made, called by a line of its own."""
        seen = isinstance(loop, cst.For) and (
            loop in context.step_loops.loops or bool(context.pipelines.of(loop.iter))
        )
        line = context.module.parent(statement)
        alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
        return seen and alone and not context.sharding.divides_at_use

    def _ahead(self, context: Context, statement: cst.CSTNode, given: list[str]) -> Fix:
        """A line in front of a statement that makes a whole epoch of steps."""
        start = context.module.span(statement).start
        line = f"{context.runtime(self.before)}({', '.join(given)})"
        space = f"{context.module.newline}{context.module.indentation(start)}"
        ahead = context.insert(start, f"{line}{space}", Layer.WAIT)
        return Fix(statement, (ahead,), BEFORE, (HOROVOD, self.before))

    def _write(
        self, context: Context, placed: dict[tuple[cst.CSTNode, str], list[str]]
    ) -> Iterator[Finding]:
        by_statement: dict[cst.CSTNode, list[str]] = {}
        in_expressions: dict[cst.Call, list[str]] = {}
        for (statement, optimizer), trained in placed.items():
            if isinstance(statement, cst.Call):  # in a comprehension, or the test of a loop
                given = f", {', '.join([optimizer, *trained])})"
                in_expressions.setdefault(statement, []).append(given)
                continue
            line = self._line(context, optimizer, trained)
            by_statement.setdefault(statement, []).append(line)
        for statement, lines in by_statement.items():
            edits = after_small_statement(context, statement, lines)
            yield Fix(statement, edits, needs=(HOROVOD, self.function))
        if self.behind:
            for call, closings in in_expressions.items():
                opening = f"{context.runtime(self.behind)}(" * len(closings)
                edits = context.wrap(call, opening, "".join(closings))
                yield Fix(call, edits, needs=(HOROVOD, self.behind))

    def _line(self, context: Context, optimizer: str, trained: list[str]) -> str:
        return f"{context.runtime(self.function)}({', '.join([optimizer, *trained])})"


class Compare(Broadcast):
    """Compare the ranks after each update, where `HVD302`, whose broadcast does so too, is left out.

    Who broadcasts by other means keeps the guard. `--no-guard` leaves it out.
    """

    code = "HVD304"
    name = "compare ranks"
    rationale = "Ranks that part are stopped at once, and told why."
    function = "compare_ranks"
    before = ""
    behind = ""
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                w = tf.Variable(0.0)
                opt = tf.keras.optimizers.SGD(0.1)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - w * x))
                    opt.apply_gradients([(tape.gradient(loss, w), w)])
                """
            ),
            program(
                """
                import tensorflow as tf

                w = tf.Variable(0.0)
                opt = tf.keras.optimizers.SGD(0.1)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)
                for x, y in dataset:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - w * x))
                    opt.apply_gradients([(tape.gradient(loss, w), w)])
                    jhvd.compare_ranks(w)
                """
            ),
            "With `HVD302`, `jhvd.broadcast_once` stands here.",
            ("HVD302",),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if context.options.guard and not context.options.uses("HVD302"):
            yield from (found for found in super().find(context) if isinstance(found, Fix))

    def _line(self, context: Context, optimizer: str, trained: list[str]) -> str:
        return f"{context.runtime(self.function)}({', '.join(trained)})"


def compiled_loop(context: Context, update: Update, site: EagerSite) -> cst.CSTNode | None:
    """A loop over data, between the update and the eager call, that is compiled as a whole.

    A loop over a `range`, such as the critic's few steps of a Wasserstein GAN, is part of one step, unless each turn draws a batch.
    """
    for call in (update.call, *site.chain[:-1]) if site.chain else ():
        function = context.module.function_of(call)
        for loop in context.module.ancestors(call):
            if loop is function:
                break
            if isinstance(loop, cst.While):
                return loop
            if loop in context.training.variable_loops:
                continue
            if isinstance(loop, cst.For) and (
                loop in context.step_loops.loops or not _runs_over_range(context, loop)
            ):
                return loop
    return None


def _runs_over_range(context: Context, loop: cst.For) -> bool:
    return isinstance(loop.iter, cst.Call) and context.values.qualified(loop.iter.func) in (
        "builtins.range",
        "tensorflow.range",
    )


def trained_texts(context: Context, update: Update, site: EagerSite) -> list[str] | None:
    """The models and variables to broadcast, written for the place of the eager call."""
    texts: list[str] = []
    listed = update.variables
    if update.optimizer is None:
        listed = tuple(whole_list(context.values, variable) for variable in listed)
    for variables in listed:
        found = _owners(context, variables, site)
        if found is None:
            return None
        texts += [text.removesuffix(".trainable_variables") for text in found]
    return texts or None


def _owners(context: Context, variables: cst.BaseExpression, site: EagerSite) -> list[str] | None:
    """`m` for `m.trainable_variables`: its moving averages must be equal too."""
    match variables:
        case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in VARIABLE_LISTS:
            base = lift(context.values, _whole_model(owner), site)
            return [base] if base else None
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            one, two = _owners(context, left, site), _owners(context, right, site)
            return [*one, *two] if one and two else None
        case cst.ListComp() | cst.GeneratorExp() if not site.chain:
            # Pairs made one by one: the same comprehension, of the variables alone.
            assert isinstance(variables.elt, cst.Tuple)
            variable = context.module.text(variables.elt.elements[1].value)
            return [f"[{variable} {context.module.text(variables.for_in).strip()}]"]
        case cst.Subscript(value=whole) if _ends_in_list(context, whole):
            # What of the model is not trained must be equal, too, or the gradients are of different functions.
            found = _owners(context, whole, site)
            if found:
                return found
        case cst.Name():
            value = _only_value(context, variables)
            if value is not None and _ends_in_list(context, value):
                found = _owners(context, value, site)
                if found:
                    return found
    text = lift(context.values, variables, site)
    return [text] if text else None


def _whole_model(owner: cst.BaseExpression) -> cst.BaseExpression:
    """`m` for `m.layers[0]` and `m.get_layer(…)`: the layers that are not trained must be equal, too."""
    match owner:
        case cst.Subscript(value=cst.Attribute(value=model, attr=cst.Name(value="layers"))):
            return _whole_model(model)
        case cst.Call(func=cst.Attribute(value=model, attr=cst.Name(value="get_layer"))):
            return _whole_model(model)
    return owner


def _only_value(context: Context, name: cst.Name) -> cst.BaseExpression | None:
    """The expression that a name is bound to, where there is one alone."""
    bindings = context.values.definitions.of(name)
    if len(bindings) != 1 or isinstance(bindings[0], cst.CSTNode) or bindings[0].path:
        return None
    return bindings[0].value


def _ends_in_list(context: Context, variables: cst.BaseExpression) -> bool:
    """Whether an expression is the variables of a model, or of several, or some of them."""
    match variables:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in VARIABLE_LISTS
        case cst.BinaryOperation(operator=cst.Add(), right=right):
            return _ends_in_list(context, right)
        case cst.Subscript(value=whole):
            return _ends_in_list(context, whole)
        case cst.Name():
            value = _only_value(context, variables)
            return isinstance(value, cst.Attribute) and _ends_in_list(context, value)
    return False


def after_small_statement(
    context: Context, statement: cst.CSTNode, lines: list[str]
) -> tuple[Edit, ...]:
    """Lines that run after a small statement, wherever it stands and whatever it does."""
    module = context.module
    parent = module.parent(statement)
    span = module.span(statement)
    edits: list[Edit] = []
    if isinstance(statement, cst.Return):
        # The value is kept while the lines run.
        result = context.fresh("hvd_result")
        edits.append(Edit(span.start, span.start + len("return"), 0, f"{result} ="))
        lines = [*lines, f"return {result}"]
    if isinstance(parent, cst.SimpleStatementSuite):
        owner = module.parent(parent)
        assert owner is not None
        indent = module.indentation(module.span(owner).start) + context.indent_step(owner)
        first = module.span(parent.body[0]).start
        edits.append(context.insert(first, f"{module.newline}{indent}", Layer.WAIT))
        text = "".join(f"{module.newline}{indent}{line}" for line in lines)
        return (*edits, context.insert(module.line_end(span.end), text))
    line = parent if isinstance(parent, cst.SimpleStatementLine) else statement
    return (*edits, context.after_statement(line, lines))


#: Why, where weights are set by hand.
KEPT = (
    "Weights that each rank has kept by itself may be of different steps: all ranks take rank 0's."
)


#: Why, where a batch is left out.
OF_BATCH = (
    "Each rank asks its own batch, and none may train on one while another leaves its own out."
)


class Decision(Rule):
    """Let all ranks follow rank 0 where the training goes on or ends by what one rank has seen.

    `if loss < 0.1: break` ends the loop on the ranks whose own loss is small; the others
    wait for their gradients forever. So the question is answered by rank 0 for all.
    A question to the batch itself, `if np.isnan(x).any(): continue`, is put to the batches of all ranks: where one is left out, all are.
    Rank 0 also answers where a question decides whether a loop around the training sets a rate, weights that were kept, or what data are made of, or whether rank 0 saves and tells the others where. A question that decides which weights
    are kept, those of the best epoch, say, is answered by rank 0, and where it cannot be seen that all ranks set the same, they take rank 0's. A number of epochs, or of turns around the training, that losses decide is rank 0's,
    and so is what they choose for another training: the best rate, number of units or model of several. What a model answers to a callback that decides so, and its clock, are rank 0's. A rate that is computed
    from a rank's own losses is rank 0's, too. Questions that all ranks answer alike, of counters and constants, are left alone.
    """

    code = "HVD303"
    name = "common decisions"
    rationale = "Ranks compute different losses; branching on one makes them diverge and deadlock."
    partial = True
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)

                for x, y in dataset:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                    if loss < 0.1:
                        break
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)

                for x, y in dataset:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                    if hvd.broadcast_object(bool(loss < 0.1), root_rank=0):
                        break
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        tests: dict[cst.BaseExpression, bool] = {}
        for fit in (*context.training.keras.fits, *context.training.keras.searches):
            for call in context.values.calls.leading_to(fit):
                tests.update((test, False) for test in deciding_tests(context, call))
        for update in context.training.updates:
            if context.training.keras.runs(update.function):  # compiled by Keras
                for call in context.values.calls.leading_to(update.call):
                    tests.update((test, True) for test in deciding_tests(context, call))
                continue
            for site in context.training.compiled.eager_sites(update):
                for call in context.values.calls.leading_to(site.call):
                    tests.update((t, tests.get(t, False)) for t in deciding_tests(context, call))
                if site.chain:
                    # Inside a compiled function nothing can be asked of rank 0.
                    for call in (update.call, *site.chain[:-1]):
                        tests.update((test, True) for test in deciding_tests(context, call))
        equal = context.training.agreement.is_equal
        skipping = self._of_batches(context)
        for test in skipping:
            tests.setdefault(test, context.training.is_compiled(test))
        set_here = list(self._set(context))
        for node in set_here:
            for test in self._around(context, node):
                if test not in tests and not equal(test):
                    tests[test] = context.training.is_compiled(test)
        chosen = choices(context)
        tests.update((test, context.training.is_compiled(test)) for test in chosen.tests)
        tests.update((test, False) for test in clocks_of_callbacks(context))
        for setting in context.settings.every:
            for test in context.settings.deciding(setting):
                tests.setdefault(test, context.training.is_compiled(test))
        for node in (*kept_writes(context), *restored_again(context)):
            for test in self._around(context, node):
                if test not in tests and not equal(test):
                    tests[test] = context.training.is_compiled(test)
        for node in self._of_data(context):
            for test in self._around(context, node):
                if test not in tests and is_seen_by_rank(context, test):
                    tests[test] = context.training.is_compiled(test)
        for test, compiled in tests.items():
            if is_uniform(context.values, test) or (compiled and equal(test)):
                continue
            if is_of_environment(context, test):
                yield Problem(
                    test,
                    "whether training goes on is what an environment answers, and each rank plays episodes of its own, of other lengths",
                    "play the episodes apart from the updates, and make as many updates on every rank: for step in range(updates)",
                )
            elif compiled:
                yield Problem(
                    test,
                    "whether weights are updated is decided by each rank for itself, inside a compiled function",
                    "decide outside the tf.function: let it return the gradients, and apply them there",
                )
            elif test in skipping:
                every = "all" if skipping[test] else "any"
                gathered = f"{every}({context.backend.gather_function}(bool("
                yield Fix(test, context.wrap(test, gathered, ")))"), OF_BATCH)
            else:
                yield Fix(
                    test,
                    context.wrap(
                        test, f"{context.backend.broadcast_function}(bool(", "), root_rank=0)"
                    ),
                )
        counts = [count for count in self._counts(context) if self._is_of_rank(context, count)]
        answers = answers_to_callbacks(context)
        asked = dict.fromkeys((*chosen.chosen, *chosen.numbers, *counts, *answers))
        compiled_ones = [each for each in asked if context.training.is_compiled(each)]
        for expression in (*chosen.unclear, *compiled_ones):
            yield Problem(
                expression,
                "what is trained here is chosen by each rank's own losses, so that ranks would train what is not the same",
                "choose by its place, models[int(np.argmin(losses))], outside every tf.function: then it is rank 0's choice",
            )
        for each in asked:
            inside = any(a in chosen.chosen for a in context.module.ancestors(each))
            if each not in compiled_ones and not inside:
                before = f"{context.backend.broadcast_function}("
                yield Fix(each, context.wrap(each, before, ", root_rank=0)", Layer.FUNCTION))
        for setting in context.settings.every:
            if not context.settings.is_alike(setting):
                yield self._of_rank_zero(context, setting)
        for rate in set_rates(context):
            if rate not in set_here or not is_seen_by_rank(context, rate):
                continue
            if context.training.is_compiled(rate):
                yield Problem(
                    rate,
                    "this rate is computed from each rank's own losses, inside a compiled function",
                    "set it outside the tf.function",
                )
            else:
                before = f"{context.backend.broadcast_function}(float("
                yield Fix(rate, context.wrap(rate, before, "), root_rank=0)", Layer.FUNCTION))

    def _of_batches(self, context: Context) -> dict[cst.BaseExpression, bool]:
        """The questions to a rank's own batch that decide whether it is trained on, with the answer that leads there.

        Rank 0's answer would be one to another batch: all ranks train where each may.
        """
        values, training = context.values, context.training
        found: dict[cst.BaseExpression, set[bool]] = {}
        for update, sites in training.own_updates:
            for site in sites:
                for call in (update.call, *site.chain, *values.calls.leading_to(site.call)):
                    for test, wanted in conditions(values, call):
                        found.setdefault(test, set()).add(wanted)
        batches = context.data.trained_over | {*context.step_loops.batches_cut, *context.data.draws}
        return {
            test: True in wanted
            for test, wanted in found.items()
            if len(wanted) == 1
            and not is_uniform(values, test)
            and not batches.isdisjoint(values.flow.backward_slice(test))
        }

    def _counts(self, context: Context) -> Iterator[cst.BaseExpression]:
        """How often all ranks must do the same: epochs of `fit`, turns of a range around the training, passes of data."""
        for fit in context.training.keras.shown_fits:
            given = (argument(fit, name) for name in ("epochs", "initial_epoch"))
            yield from (arg.value for arg in given if arg is not None)
        for loop in context.alike.loops:
            turns = (
                context.values.flow.unwrap_iteration(loop.iter)
                if isinstance(loop, cst.For)
                else None
            )
            if isinstance(turns, cst.Call) and is_range(context.values.qualified(turns.func)):
                yield from (arg.value for arg in turns.args)
        steps = dict.fromkeys(s for p in context.data.pipelines for s in p.steps)
        for step in steps:
            if method(step) in ("take", "skip", "repeat"):
                yield from (arg.value for arg in step.args)

    def _is_of_rank(self, context: Context, count: cst.BaseExpression) -> bool:
        """Whether a rank's own losses decide a count; histories of `fit` do not, which are averaged where they decide one."""
        own = context.training.seen_by_rank - {*context.training.keras.fits}
        return not context.training.is_compiled(count) and any(
            node in own for node in decided_from(context, count)
        )

    def _of_rank_zero(self, context: Context, setting: Setting) -> Finding:
        """What rank 0 sets weights to, on all ranks."""
        if context.training.is_compiled(setting.call):
            return Problem(
                setting.call,
                "weights are set here to what may be another on each rank, inside a compiled function",
                "set them outside the tf.function, or bring together what they are set to with hvd.broadcast",
                "warning",
            )
        asked = f"{context.backend.broadcast_function}("
        edits = context.wrap(setting.value, asked, ", root_rank=0)", Layer.FUNCTION)
        return Fix(setting.value, edits, KEPT)

    def _set(self, context: Context) -> Iterator[cst.CSTNode]:
        """Where loops around the training set what each rank has of its own and all must have alike: rates and weights."""
        weights = (
            call
            for call in context.values.index.calls
            if method(call) in ("set_weights", "load_weights")
        )
        for node in (*set_rates(context), *weights):
            function = context.module.function_of(node)
            called_by_keras = function is not None and function.name.value.startswith("on_")
            if not called_by_keras and not context.alike.is_before_steps(node):
                yield node

    def _of_data(self, context: Context) -> Iterator[cst.CSTNode]:
        """Where loops around the training set what data are made of: names, and attributes of what makes them."""
        values = context.values
        behind = {n for data in context.alike.parted for n in values.flow.computed_from(data)}
        makers = {
            value.node
            for node in behind
            if isinstance(node, (cst.Name, cst.Attribute, cst.Call))
            for value in values.of(node)
            if value.kind is Kind.INSTANCE
        }
        bound = [b for n in behind if isinstance(n, cst.Name) for b in values.definitions.of(n)]
        places = {b.place: None for b in bound if isinstance(b, Binding) and b.place is not None}
        for b in (b for each in values.index.attribute_bindings.values() for b in each):
            made = values.of(b.receiver) if b.receiver is not None else ()
            if b.place is not None and makers & {value.node for value in made}:
                places[b.place] = None
        yield from (place for place in places if not context.alike.is_before_steps(place))

    def _around(self, context: Context, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The tests that decide whether all ranks come to a node, through calls."""
        yield from deciding_tests(context, node)
        function = context.module.function_of(node)
        for site in context.values.calls.sites(function) if function is not None else ():
            for call in context.values.calls.leading_to(site):
                yield from deciding_tests(context, call)


def deciding_tests(context: Context, call: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests that decide, in the call's own function, whether the call runs, and runs again."""
    function = context.module.function_of(call)
    yield from tests_around(context.values, call)
    for ancestor in (call, *context.module.ancestors(call)):
        if ancestor is function:
            break
        if isinstance(ancestor, cst.Call) and (test := context.values.calls.decided_by(ancestor)):
            yield test
    yield from leaving_tests(context.values, call, skips=True)


def is_replaced(context: Context, call: cst.Call) -> bool:
    """Whether the function around a call, which nothing calls, is defined anew below: what stands in it never runs."""
    function = context.module.function_of(call)
    block = context.module.parent(function) if function is not None else None
    if function is None or not isinstance(block, (cst.Module, cst.IndentedBlock)):
        return False
    below = block.body[list(block.body).index(function) + 1 :]
    names = (each.name.value for each in below if isinstance(each, cst.FunctionDef))
    return function.name.value in names


RULES: tuple[type[Rule], ...] = (Tape, AverageUpdate, Broadcast, Compare, Decision)
