"""HVD3: tapes average gradients; the first update is followed by a broadcast."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import argument
from ...analysis.uniformity import is_uniform
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.training import VARIABLE_LISTS, EagerSite, TrainingTape, Update
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, TENSORFLOW, Context, Rule


class Tape(Rule):
    """Average the gradients of training tapes with `hvd.DistributedGradientTape`.

    Only a tape whose gradients reach `apply_gradients` is wrapped. The gradients of a
    gradient penalty, of an adversarial example or of a saliency map belong to one
    rank's own examples: averaging them is wrong. A tape that serves both is wrapped at the
    call that trains; of one that is asked inside its own `with` the gradients are averaged.
    Horovod's tape knows flat lists only; other structures are flattened and put together again.
    """

    code = "HVD301"
    name = "distributed tape"
    message = (
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
                    tape = hvd.DistributedGradientTape(tape)
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
                line = f"{name} = {context.backend.tape_function}({name}{context.compression})"
                yield Fix(tape.block, (self._after_block(context, tape.block, line),))
            else:
                at_call.update((call, tape) for call in tape.training)
        for call in context.training.training_gradients:
            tape_of = at_call.get(call)
            if tape_of and any(a is tape_of.block for a in context.module.ancestors(call)):
                yield self._average(context, call)
            else:
                yield from self._gradient(context, call, tape_of is not None)

    def _average(self, context: Context, call: cst.Call) -> Fix:
        """A tape that still records cannot be wrapped; what it gives can be averaged."""
        average = f"lambda gradient: gradient if gradient is None else {context.backend.average_function}(gradient{context.compression})"
        edits = context.wrap(call, f"{context.tf}.nest.map_structure({average}, ", ")")
        return Fix(call, edits, needs=(HOROVOD, TENSORFLOW))

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

    def _gradient(self, context: Context, call: cst.Call, wrap: bool) -> Iterator[Finding]:
        assert isinstance(call.func, cst.Attribute)
        edits: list[Edit] = []
        if wrap:
            edits += context.wrap(
                call.func.value,
                f"{context.backend.tape_function}(",
                f"{context.compression})",
            )
        sources = argument(call, "sources", 1)
        if sources is not None and not is_flat(context, sources.value):
            nest, text = f"{context.tf}.nest", context.module.text(sources.value)
            edits += context.wrap(call, f"{nest}.pack_sequence_as({text}, ", ")")
            edits += context.wrap(sources.value, f"{nest}.flatten(", ")")
        if edits:
            yield Fix(call, tuple(edits), needs=(HOROVOD, TENSORFLOW))


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


def is_flat(context: Context, sources: cst.BaseExpression) -> bool:
    """Whether the sources of a gradient are, for certain, a flat list of variables."""
    match sources:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in VARIABLE_LISTS
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            return is_flat(context, left) and is_flat(context, right)
        case cst.List(elements=elements):
            return all(
                context.values.kinds(element.value) == {Role.VARIABLE} for element in elements
            )
        case cst.Name():
            bindings = context.values.definitions.of(sources)
            return bool(bindings) and all(
                not isinstance(b, cst.CSTNode) and not b.path and is_flat(context, b.value)
                for b in bindings
            )
    return False


class Broadcast(Rule):
    """After an optimizer's first update, take rank 0's weights and optimizer state on every rank.

    Ranks start with weights of their own, so they must be made equal once, when all
    variables exist: a model built by its first batch and the optimizer's slots
    exist only after the first update. Inside the step a broadcast would
    run never, or at every step, once the step is compiled. So the
    broadcast stands after the call that runs the step, outside every
    `tf.function`; `jhvd.broadcast_once` does nothing when it is called again.
    """

    code = "HVD302"
    name = "broadcast once"
    message = "All ranks go on from rank 0's weights and optimizer state, once, after the first update, when all variables exist."
    examples = (
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
            None,
            "A whole epoch in one compiled call leaves no place between its steps.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        placed: dict[tuple[cst.CSTNode, str], list[str]] = {}
        for update in context.training.updates:
            if context.training.in_keras(update.function):
                continue
            sites = context.training.eager_sites(update)
            if not sites:
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
        statement = context.statement_of(site.call)
        if statement is None:
            yield Problem(
                site.call,
                "a training step is called inside a larger expression, where no broadcast can follow its first call",
                "call the step in a statement of its own, in an ordinary for loop",
            )
            return
        loop = compiled_loop(context, update, site)
        if loop is not None:
            yield Problem(
                loop,
                "the loop over the batches is compiled, so the ranks would train apart until its end",
                "move the loop out of the tf.function and leave one step inside",
            )
            return
        optimizer = context.training.lift(update.optimizer, site.chain, site.call)
        trained = trained_texts(context, update, site)
        if optimizer is None or trained is None:
            what = "which optimizer" if optimizer is None else "which variables"
            yield Problem(
                update.call,
                f"it cannot be seen from the calling loop {what} this step changes",
                "pass the model and the optimizer to the step by name, or keep them at the top level",
            )
            return
        texts = placed.setdefault((statement, optimizer), [])
        texts += [text for text in trained if text not in texts]

    def _write(
        self, context: Context, placed: dict[tuple[cst.CSTNode, str], list[str]]
    ) -> Iterator[Finding]:
        by_statement: dict[cst.CSTNode, list[str]] = {}
        broadcast = context.runtime("broadcast_once")
        for (statement, optimizer), trained in placed.items():
            line = f"{broadcast}({', '.join([optimizer, *trained])})"
            by_statement.setdefault(statement, []).append(line)
        for statement, lines in by_statement.items():
            edits = after_small_statement(context, statement, lines)
            yield Fix(statement, edits, needs=(HOROVOD, "broadcast_once"))


def compiled_loop(context: Context, update: Update, site: EagerSite) -> cst.CSTNode | None:
    """A loop over data, between the update and the eager call, that is compiled as a whole.

    A loop over a `range`, such as the critic's few steps of a Wasserstein GAN, is part of one step.
    """
    for call in (update.call, *site.chain[:-1]) if site.chain else ():
        function = context.module.function_of(call)
        for loop in context.module.ancestors(call):
            if loop is function:
                break
            if isinstance(loop, cst.While):
                return loop
            if isinstance(loop, cst.For) and not (
                isinstance(loop.iter, cst.Call)
                and context.values.qualified(loop.iter.func)
                in ("builtins.range", "tensorflow.range")
            ):
                return loop
    return None


def trained_texts(context: Context, update: Update, site: EagerSite) -> list[str] | None:
    """The models and variables to broadcast, written for the place of the eager call."""
    texts: list[str] = []
    for variables in update.variables:
        found = _owners(context, variables, site)
        if found is None:
            return None
        texts += found
    return texts or None


def _owners(context: Context, variables: cst.BaseExpression, site: EagerSite) -> list[str] | None:
    """`m` for `m.trainable_variables`: its moving averages must be equal too."""
    lift = context.training.lift
    match variables:
        case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in VARIABLE_LISTS:
            base = lift(owner, site.chain, site.call)
            return [base] if base else None
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            one, two = _owners(context, left, site), _owners(context, right, site)
            return [*one, *two] if one and two else None
        case cst.ListComp() | cst.GeneratorExp() if not site.chain:
            # Pairs made one by one: the same comprehension, of the variables alone.
            assert isinstance(variables.elt, cst.Tuple)
            variable = context.module.text(variables.elt.elements[1].value)
            return [f"[{variable} {context.module.text(variables.for_in).strip()}]"]
        case cst.Name():
            bindings = context.values.definitions.of(variables)
            if (
                len(bindings) == 1
                and not isinstance(bindings[0], cst.CSTNode)
                and not bindings[0].path
                and _ends_in_list(bindings[0].value)
            ):
                found = _owners(context, bindings[0].value, site)
                if found:
                    return found
    text = lift(variables, site.chain, site.call)
    return [text] if text else None


def _ends_in_list(variables: cst.BaseExpression) -> bool:
    """Whether an expression is the variables of a model, or of several."""
    match variables:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in VARIABLE_LISTS
        case cst.BinaryOperation(operator=cst.Add(), right=right):
            return _ends_in_list(right)
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


class Decision(Rule):
    """Let all ranks follow rank 0 where the training goes on or ends by what one rank has seen.

    `if loss < 0.1: break` ends the loop on the ranks whose own loss is small; the others
    wait for their gradients forever. So the question is answered by rank 0 for all.
    Questions that all ranks answer alike, of counters and constants, are left alone.
    """

    code = "HVD303"
    name = "common decisions"
    message = "Ranks compute different losses; branching on one makes them diverge and deadlock."
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
        for update in context.training.updates:
            for site in context.training.eager_sites(update):
                for test in deciding_tests(context, site.call):
                    tests.setdefault(test, False)
                if site.chain:
                    # Inside a compiled function nothing can be asked of rank 0.
                    for call in (update.call, *site.chain[:-1]):
                        tests.update((test, True) for test in deciding_tests(context, call))
        for test, compiled in tests.items():
            if is_uniform(context.values, test):
                continue
            if compiled:
                yield Problem(
                    test,
                    "whether weights are updated is decided by each rank for itself, inside a compiled function",
                    "average what decides with hvd.allreduce, or decide outside the tf.function",
                )
            else:
                yield Fix(
                    test,
                    context.wrap(
                        test, f"{context.backend.broadcast_function}(bool(", "), root_rank=0)"
                    ),
                )


def deciding_tests(context: Context, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The tests that decide, in the call's own function, whether the call runs, and runs again."""
    function = context.module.function_of(call)
    loops: list[cst.CSTNode] = []
    child: cst.CSTNode = call
    for ancestor in context.module.ancestors(call):
        if ancestor is function:
            break
        if isinstance(ancestor, cst.If) and child is not ancestor.test:
            yield ancestor.test
        elif isinstance(ancestor, (cst.While, cst.For)):
            loops.append(ancestor)
            if isinstance(ancestor, cst.While):
                yield ancestor.test
        child = ancestor
    for leave in context.values.index.leaves:
        inside = list(context.module.ancestors(leave))
        if context.module.function_of(leave) is function and any(loop in inside for loop in loops):
            for ancestor in inside:
                if ancestor in loops:
                    break
                if isinstance(ancestor, cst.If):
                    yield ancestor.test


RULES: tuple[type[Rule], ...] = (Tape, Broadcast, Decision)
