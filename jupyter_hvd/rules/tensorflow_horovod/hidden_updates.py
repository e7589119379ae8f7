"""HVD9, continued: training that happens where no optimizer, no `fit` and no `assign` is seen."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import Kind
from ...analysis.syntax import argument, method, names_in
from ...frameworks.tensorflow.agreement import ASSIGNING, VARIABLE_LISTS
from ...frameworks.tensorflow.roles import Role
from ..base import Example, Finding, Problem, program
from .context import Context, Rule
from .questions import KNOWN_LIBRARIES

#: Methods that train, by what has them.
TRAINING_METHODS = {
    Role.MODEL: frozenset({"fit", "fit_generator", "train_on_batch"}),
    Role.OPTIMIZER: frozenset({"apply_gradients", "minimize"}),
}
#: Where such a method is not handed on: it is set, deleted, compared, asked for its own attributes, or stands alone.
ONLY_NAMED = (
    cst.AssignTarget,
    cst.Attribute,
    cst.Comparison,
    cst.ComparisonTarget,
    cst.Del,
    cst.Expr,
)
#: What runs a function beside the program, and methods of such things.
BESIDE = ("multiprocessing.", "threading.", "concurrent.futures.", "joblib.")
QUEUING = frozenset({"submit", "apply_async", "map_async", "starmap", "starmap_async", "imap"})


class HiddenUpdates(Rule):
    """Weights are changed by gradients, and what changes them is not seen.

    A method that trains is handed on, or kept under another name, instead of called: what calls it, with which data, is not seen. A function that
    computes gradients of weights is handed to another library, L-BFGS of SciPy, say, whose steps are its own. Weights are set from
    gradients as arrays, by `set_weights`. Training runs in a process or thread of its own, while ranks exchange gradients in one order, from
    one. Gradients of weights that only seem to go nowhere are told, and so are variables that a loop over data sets by these data and by what
    it has set before: weights, whatever computes them.
    """

    code = "HVD909"
    name = "hidden updates"
    refuses = True
    rationale = "What changes weights cannot be averaged where it is not seen."
    examples = (
        Example(
            program(
                """
                import functools
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                train = functools.partial(model.fit, x, y)
                train(epochs=3)
                """
            ),
            None,
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                train = model.train_on_batch
                for x, y in data:
                    train(x, y)
                """
            ),
            None,
        ),
        Example(
            program(
                """
                import scipy.optimize
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])


                def loss_and_gradient(flat):
                    model.set_weights(unflatten(flat))
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    gradients = tape.gradient(loss, model.trainable_variables)
                    return loss.numpy(), flatten(gradients)


                scipy.optimize.minimize(loss_and_gradient, start, jac=True, method='L-BFGS-B')
                """
            ),
            None,
            "SciPy decides how far each step goes.",
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                for x, y in data:
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    gradients = tape.gradient(loss, model.trainable_weights)
                    model.set_weights([w - 0.1 * g for w, g in zip(model.get_weights(), gradients)])
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        methods = list(self._methods_handed_on(context))
        yield from methods
        yield from self._training_beside(context)
        computed = [c for c in context.values.index.calls if self._is_of_weights(context, c)]
        set_by_hand = list(self._set_weights(context))
        handed = list(self._functions_handed_on(context, computed))
        yield from (*set_by_hand, *handed)
        yield from self._learned_otherwise(context)
        if methods or set_by_hand or handed or context.training.loop != "none":
            return
        for call in computed[:1]:
            yield Problem(
                call,
                "gradients of weights are computed here, and nothing is seen that changes weights by them",
                "if this trains, change the weights with optimizer.apply_gradients(…), or variable.assign_sub(…), in this file",
                "warning",
            )

    def _methods_handed_on(self, context: Context) -> Iterator[Problem]:
        """`functools.partial(model.fit, …)`, `train = model.fit`, `getattr(model, "fit")`"""
        values = context.values
        called = {call.func for call in values.index.calls}
        for node in values.index.attributes:
            name, parent = node.attr.value, context.module.parent(node)
            if (
                node not in called
                and not isinstance(parent, ONLY_NAMED)
                and not (isinstance(parent, cst.AnnAssign) and parent.target is node)
                and trains(context, node.value, name)
            ):
                yield handed_on(node, context.module.text(node))
        for call in values.index.calls:
            match call.args:
                case [cst.Arg(value=owner), cst.Arg(value=cst.SimpleString() as asked), *_] if (
                    values.qualified(call.func) == "builtins.getattr"
                    and trains(context, owner, str(asked.evaluated_value))
                ):
                    yield handed_on(call, context.module.text(call))

    def _learned_otherwise(self, context: Context) -> Iterator[Problem]:
        """Variables that a loop over data sets, by these data and by what it has set: contrastive divergence, Gauss and Newton's steps."""
        values, slices, set_in = context.values, {}, {}
        gradients = context.training.gradients
        updates = {update.call for update in context.training.updates}
        for call in values.index.calls:
            match call:
                case cst.Call(func=cst.Attribute(value=variable), args=[given, *_]) if (
                    method(call) in ASSIGNING
                    and call not in updates
                    and values.may_be(variable, Role.VARIABLE)
                ):
                    behind = {*values.flow.backward_slice(given.value)}
                    if not any(map(gradients.is_gradient, behind)):
                        slices[call] = behind
                        set_in[call] = {*values.flow.backward_slice(variable)}
        for loop in values.index.loops:
            if not isinstance(loop, cst.For) or loop in context.alike.loops:
                continue
            learned = [
                call
                for call, behind in slices.items()
                if self._takes_from(context, loop, behind) and loop.iter not in set_in[call]
            ]
            variables = {
                value
                for call in learned
                if isinstance(call.func, cst.Attribute)
                for value in values.of(call.func.value)
                if value.kind is Role.VARIABLE
            }
            for call in learned:
                names = (n for n in slices[call] if isinstance(n, cst.Name | cst.Attribute))
                if any(variables & values.of(name) for name in names):
                    yield Problem(
                        call,
                        "this loop over data sets variables by these data, and no gradients are seen that ranks could average: each rank sets"
                        " them by all the data, and in an order of its own where that is drawn, so that ranks may differ",
                        "if this trains, average what is set over the ranks by hand (hvd.allreduce), and have rank 0's where it ends"
                        " (hvd.broadcast_variables)",
                        "warning",
                    )
                    break

    def _takes_from(self, context: Context, loop: cst.For, behind: set[cst.CSTNode]) -> bool:
        """Whether something is made of the data that a loop runs over, or that it cuts by its numbers."""
        if loop.iter not in behind:
            return False
        numbers = {name.value for name in names_in(loop.target)}
        return context.data.gives_data(loop.iter) or any(
            isinstance(node, cst.Subscript)
            and any(name.value in numbers for part in node.slice for name in names_in(part))
            for node in behind
        )

    def _set_weights(self, context: Context) -> Iterator[Problem]:
        for call in context.values.index.calls:
            given = argument(call, "weights", 0) if method(call) == "set_weights" else None
            is_gradient = context.training.gradients.is_gradient
            if given and any(map(is_gradient, context.values.flow.backward_slice(given.value))):
                yield Problem(
                    call,
                    "weights are set from gradients here, each rank from its own",
                    "let an optimizer apply them: optimizer.apply_gradients(zip(gradients, model.trainable_variables))",
                )

    def _functions_handed_on(self, context: Context, computed: list[cst.Call]) -> Iterator[Problem]:
        """Functions that compute gradients of weights, as arguments of another library's functions."""
        running = {f for call in computed for f in context.training.compiled.running(call)}
        for call in context.values.index.calls if running else ():
            name = context.values.qualified(call.func)
            if not name or name.startswith(KNOWN_LIBRARIES):
                continue
            for arg in call.args:
                functions = {
                    v.node for v in context.values.of(arg.value) if v.kind is Kind.FUNCTION
                }
                if functions & running:
                    yield Problem(
                        call,
                        f"a function that computes gradients is handed to {context.module.text(call.func)}, which changes"
                        " weights in its own way, on each rank by itself",
                        "average its loss and gradients over the ranks inside that function by hand (hvd.allreduce), or train with an optimizer"
                        " of Keras in this file",
                    )

    def _training_beside(self, context: Context) -> Iterator[Problem]:
        """`threading.Thread(target=train)`, `pool.submit(train)`"""
        values, running = context.values, context.training.functions
        for call in values.index.calls if running else ():
            name = values.qualified(call.func)
            if not name.startswith(BESIDE) and (name or method(call) not in QUEUING):
                continue
            handed = (value.node for arg in call.args for value in values.of(arg.value))
            if running & set(handed):
                yield Problem(
                    call,
                    "training runs in a process or thread of its own here, and ranks exchange gradients in one order, from one",
                    "call the function that trains where it stands now, and let the ranks work side by side",
                )

    def _is_of_weights(self, context: Context, call: cst.Call) -> bool:
        """Whether a call computes gradients of weights that no update seen here applies."""
        gradients = context.training.gradients
        if not gradients.is_gradient(call) or call in context.training.training_gradients:
            return False
        sources = argument(call, "sources", 1)
        return sources is not None and any(
            (isinstance(node, cst.Attribute) and node.attr.value in VARIABLE_LISTS)
            or (isinstance(node, cst.Name) and self._is_bound_anew(context, node, call))
            for node in context.values.flow.backward_slice(sources.value)
        )

    def _is_bound_anew(self, context: Context, name: cst.Name, call: cst.Call) -> bool:
        """`w = w - rate * tape.gradient(loss, w)`: weights, or an adversarial example."""
        bound = [b.value for b in context.values.definitions.of(name) if isinstance(b, Binding)]
        slices = (list(context.values.flow.backward_slice(value)) for value in bound)
        return any(
            call in nodes and any(isinstance(n, cst.Name) and n.value == name.value for n in nodes)
            for nodes in slices
        )


def trains(context: Context, owner: cst.BaseExpression, name: str) -> bool:
    """Whether `owner.name` is a method that trains."""
    may_be = partial(context.values.may_be, owner)
    return any(name in methods and may_be(role) for role, methods in TRAINING_METHODS.items())


def handed_on(node: cst.CSTNode, text: str) -> Problem:
    return Problem(
        node,
        f"{text} is handed on here, and where it is called, with which data, cannot be seen",
        "call it here, or in a function of this file",
    )


RULES: tuple[type[Rule], ...] = (HiddenUpdates,)
