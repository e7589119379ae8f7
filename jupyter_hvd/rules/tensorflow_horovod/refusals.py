"""HVD9: programs that cannot be right under Horovod, and what to do instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from ...analysis.index import ELEMENT
from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, method
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.keras_loops import POSITIONS
from ...frameworks.tensorflow.library import partial_call
from ...frameworks.tensorflow.pipelines import parts
from ...frameworks.tensorflow.roles import Role
from ..base import BATCHES, Example, Finding, Problem, program
from .context import Context, Rule
from .environment import settings
from .imports import first_import, is_own_work, uses_horovod
from .questions import KNOWN_LIBRARIES, RUNS, trains_by_name


class Refusal(Rule):
    """A rule about programs that cannot be converted, whether they train or not."""

    refuses = True


class AlreadyHorovod(Refusal):
    """The program already uses Horovod.

    What this converter has written is left as it is. A program that somebody else has
    brought to Horovod, perhaps in part, is refused: laid twice, Horovod averages twice
    and scales the learning rate twice.
    """

    code = "HVD901"
    name = "already Horovod"
    rationale = "The program already uses Horovod."
    batches = BATCHES
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                import horovod.tensorflow as hvd

                hvd.init()
                model = tf.keras.Sequential()
                model.compile('sgd')
                model.fit([1.0])
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        node = uses_horovod(context)
        if node is None:
            return
        if is_own_work(context):
            yield Problem(
                node,
                "this program is converted already; nothing is changed",
                "convert the original to change it",
                "info",
            )
        else:
            yield Problem(
                node,
                "this program already uses Horovod, and converting it again would average and scale twice",
                "run it as it is with `horovodrun`, or remove Horovod from it first",
            )


class OtherDistribution(Refusal):
    """The program distributes with `tf.distribute`.

    A strategy and Horovod both take the devices and both average gradients. One for the devices of one
    process goes, and Horovod comes in its place (HVD104).
    """

    code = "HVD902"
    name = "other distribution"
    rationale = "Two ways of distributing do not go together."
    batches = BATCHES
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.MultiWorkerMirroredStrategy()
                with strategy.scope():
                    model = tf.keras.Sequential()
                    model.compile('sgd')
                model.fit([1.0])
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from uses(
            context,
            tf_api.OTHER_DISTRIBUTION,
            "this program already distributes, with {name}",
            "remove the strategy and its scope, so that the program trains in one process, then convert it",
            (*tf_api.LOCAL_STRATEGIES, *tf_api.WITH_LOCAL_STRATEGIES),
            lambda node, name: is_tpu(name) and self._has_other_way(context, node),
        )

    def _has_other_way(self, context: Context, node: cst.CSTNode) -> bool:
        """Whether a program goes on without what it asks for here: where there is no TPU, as where Horovod runs."""
        child = node
        for ancestor in context.module.ancestors(node):
            if isinstance(ancestor, cst.Try) and child is ancestor.body and ancestor.handlers:
                return True
            if isinstance(ancestor, cst.If) and child is ancestor.body:
                other = ancestor.orelse
                inside = {
                    a for call in self._local(context) for a in context.module.ancestors(call)
                }
                if other is not None and other in inside:
                    return True
            child = ancestor
        return False

    def _local(self, context: Context) -> Iterator[cst.Call]:
        """The calls that make a strategy for the devices of one process."""
        for call in context.values.index.calls:
            if context.values.qualified(call.func) in tf_api.LOCAL_STRATEGIES:
                yield call


def is_tpu(name: str) -> bool:
    """Whether a name is of what TPUs need, or of a module that has it."""
    return (
        "TPU" in name
        or name in ("tensorflow.distribute.cluster_resolver", "tensorflow.distribute.experimental")
        or name.startswith(("tensorflow.tpu.", "tensorflow.config.experimental_connect_to_cluster"))
    )


class TF1(Refusal):
    """The program uses TensorFlow 1: sessions, placeholders, graph mode.

    The rules are about eager TensorFlow 2. A session runs one graph, built once, and needs
    Horovod's hooks for sessions.
    """

    code = "HVD903"
    name = "TensorFlow 1"
    rationale = "Sessions need other rules than eager TensorFlow 2."
    batches = BATCHES
    examples = (
        Example(
            program(
                """
                import tensorflow.compat.v1 as tf

                tf.disable_eager_execution()
                optimizer = tf.train.AdamOptimizer()
                with tf.Session() as session:
                    session.run(optimizer.minimize(loss))
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from uses(
            context,
            tf_api.TF1,
            "{name} belongs to TensorFlow 1",
            "bring the program to TensorFlow 2 first: tensorflow.org/guide/migrate",
        )


class Estimators(Refusal):
    """The program trains an Estimator, which builds its own graph and sessions."""

    code = "HVD904"
    name = "Estimator"
    rationale = "Estimators run their own sessions."
    partial = True
    batches = BATCHES
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                estimator = tf.estimator.DNNClassifier([10], [feature])
                estimator.train(inputs)
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from uses(
            context,
            tf_api.ESTIMATORS,
            "{name} is an Estimator, which TensorFlow has given up and Horovod cannot reach into",
            "write the model with Keras and train it with fit",
            tf_api.NO_ESTIMATORS,
        )


class OtherBackend(Refusal):
    """Keras computes with JAX or PyTorch.

    Horovod for TensorFlow averages the gradients that TensorFlow computes. What the program does
    not say itself, an environment variable or Keras' own settings may; a converted program asks for that
    when it starts.
    """

    code = "HVD908"
    name = "other backend"
    rationale = "Horovod for TensorFlow averages the gradients of TensorFlow."
    batches = BATCHES
    examples = (
        Example(
            program(
                """
                import os
                os.environ['KERAS_BACKEND'] = 'jax'
                import keras

                model = keras.Sequential([keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        chosen: list[tuple[cst.CSTNode, cst.BaseExpression]] = [*settings(context, "KERAS_BACKEND")]
        for call in context.values.index.calls:
            if context.values.qualified(call.func) == "tensorflow.keras.config.set_backend":
                backend = argument(call, "backend", 0)
                if backend is not None:
                    chosen.append((call, backend.value))
        for place, value in chosen:
            match value:
                case cst.SimpleString(evaluated_value=str(backend_name)) if (
                    backend_name != "tensorflow"
                ):
                    yield Problem(
                        place,
                        f"Keras computes with {backend_name} here, whose gradients Horovod for TensorFlow cannot average",
                        'choose "tensorflow" instead; programs of Keras\' own layers and operations run there as they are',
                    )


def uses(
    context: Context,
    names: tuple[str, ...],
    message: str,
    advice: str,
    harmless: tuple[str, ...] = (),
    passed_over: Callable[[cst.CSTNode, str], bool] | None = None,
) -> Iterator[Problem]:
    """One problem for the first use of any of these names, those that end in a dot being prefixes, but for what is harmless,
    or passed over where it stands.
    """
    for node in (
        *context.values.index.attributes,
        *(call.func for call in context.values.index.calls),
    ):
        name = context.values.qualified(node)
        if any(f"{name}.".startswith(f"{other}.") for other in harmless):
            continue
        if any(
            name == wanted or (wanted.endswith(".") and name.startswith(wanted)) for wanted in names
        ) and not (passed_over and passed_over(node, name)):
            yield Problem(node, message.format(name=context.module.text(node)), advice)
            return


class HiddenFit(Refusal):
    """A `fit` of something that may or may not be a Keras model.

    `fit` of a scaler is left alone, `fit` of a model must be converted. Where nothing in
    the program tells which it is, neither is right.
    """

    code = "HVD905"
    name = "unknown fit"
    rationale = "It must be known which fit trains a Keras model."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf



                def train(learner):
                    learner.fit(x, y)


                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            None,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if not isinstance(call.func, cst.Attribute):
                continue
            name, receiver = method(call), call.func.value
            if (
                name in POSITIONS
                and call not in context.training.keras.fits
                and self._is_open(context, receiver)
            ):
                yield Problem(
                    call,
                    "nothing in this program tells whether this fit trains a Keras model",
                    "make the model in this file; if it is none, add  # hvd: ignore[HVD905]",
                )

    def _is_open(self, context: Context, receiver: cst.BaseExpression) -> bool:
        """Whether a receiver may be a model for all that this module says; what a library made has a name."""
        if first_import(context) is None or context.training.keras.is_model(receiver) is not None:
            return False
        return all(not value.name for value in context.values.of(receiver))


class HiddenTraining(Refusal):
    """A model or an optimizer is handed to a function of another module, which may train it.

    The rules see one file. What another module does
    with the model, it does on every rank by itself.
    """

    code = "HVD906"
    name = "training elsewhere"
    rationale = "What another module does with a model is not converted."
    partial = True
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                from training import train

                optimizer = tf.keras.optimizers.Adam()
                train(tf.keras.Sequential([tf.keras.layers.Dense(1)]), optimizer)
                """
            ),
            None,
        ),
        Example(
            program(
                """
                import autokeras
                import tensorflow as tf


                def build(width=8):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(width)])
                    model.compile('adam', loss='mse')
                    return model


                autokeras.Ensemble(build).fit(x, y)
                """
            ),
            None,
            "Another library trains the models that it has made.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from self._forests(context)
        for call in context.values.index.calls:
            name = context.values.qualified(call.func)
            if name in tf_api.RUNNERS or tf_api.makes_optimizer(name):
                continue
            if self._searches(context, call) and any(
                value.node in context.training.functions
                for arg in call.args
                for value in self._of(context, arg.value)
            ):
                yield Problem(
                    call,
                    f"a function that trains is handed to {context.module.text(call.func)}, which runs it with what each rank chooses by itself",
                    "search on one process, then train the model that is chosen with fit in this file",
                )
                continue
            if not name or name.startswith(KNOWN_LIBRARIES) or name == "functools.partial":
                continue
            handed = [arg.value for arg in call.args if self._makes_model(context, arg.value)]
            builds = tf_api.makes_tuner(name) or tf_api.makes_estimator(name)
            if handed and not (builds and not any(self._fits(context, e) for e in handed)):
                tried = self._is_tried(context, call)
                yield Problem(
                    call,
                    f"a function that makes a model is handed to {context.module.text(call.func)}, which "
                    + ("may train it" if tried else "trains it where it cannot be seen from here"),
                    "search on one process, then train the model that is chosen with fit in this file",
                    "warning" if tried else "error",
                )
            if not builds and any(
                context.values.may_be(arg.value, Role.OPTIMIZER) for arg in call.args
            ):
                yield Problem(
                    call,
                    f"an optimizer is handed to {context.module.text(call.func)}, of another module, which cannot be seen from here",
                    "bring the training into this file, or convert that module's step by hand",
                )
            elif not handed:
                yield from self._handed_model(context, call)

    def _forests(self, context: Context) -> Iterator[Problem]:
        """Models of TensorFlow Decision Forests, which look like Keras' and are trained without gradients."""
        for fit in context.training.keras.fits:
            assert isinstance(fit.func, cst.Attribute)
            made = context.values.of(fit.func.value)
            if any(value.name.startswith("tensorflow_decision_forests.") for value in made):
                yield Problem(
                    fit,
                    "trees are not trained by gradients, so each rank would grow a forest of its own from its share",
                    "train it on one process; TensorFlow Decision Forests has its own way to distribute",
                )

    def _searches(self, context: Context, call: cst.Call) -> bool:
        """Whether a call is of something that looks for the best arguments of a function: Optuna's `study.optimize`, say."""
        kinds = context.values.kinds(call.func)
        name = context.values.qualified(call.func)
        return (
            kinds <= {Kind.LIBRARY, Kind.UNKNOWN}
            and not name.startswith(KNOWN_LIBRARIES)
            and bool(SEARCHING.search(context.module.text(call.func)))
        )

    def _is_tried(self, context: Context, call: cst.Call) -> bool:
        """Whether a function looks at what it is given, and gives nothing on that could train: `unittests.test_build(build)`."""
        text = context.module.text(call.func)
        function = text.rpartition(".")[2]
        named = TRAINING_NAME.search(function) or SEARCHING.search(text)
        alone = isinstance(context.module.parent(call), cst.Expr)
        return alone and not named and not function[:1].isupper() and function not in RUNS

    def _handed_model(self, context: Context, call: cst.Call) -> Iterator[Problem]:
        """A model in the hands of another module's function that, by its name, trains, or that does something to it."""
        text = context.module.text(call.func)
        function = text.rpartition(".")[2]
        given = [part for arg in call.args for part in parts(arg.value)]
        if not any(self._is_model(context, part) for part in given):
            return
        trains = bool(TRAINING_NAME.search(function)) or trains_by_name(
            context.values.qualified(call.func)
        )
        if trains or (
            isinstance(context.module.parent(call), cst.Expr) and not function[:1].isupper()
        ):
            yield Problem(
                call,
                f"a model is handed to {text}, of another module, "
                + (
                    "which trains it where it cannot be seen from here"
                    if trains
                    else "which may train it"
                ),
                "bring its training into this file, where it can be converted",
                "error" if trains else "warning",
            )

    def _is_model(self, context: Context, expression: cst.BaseExpression) -> bool:
        """Whether an expression is a model, or has one in it, by what makes it or by the `compile` that it is given here."""
        elements = (value.kind for value in context.values.of(expression, (ELEMENT,)))
        return (
            context.values.may_be(expression, Role.MODEL)
            or Role.MODEL in elements
            or context.module.text(expression) in context.training.keras.compiled_receivers
        )

    def _fits(self, context: Context, expression: cst.BaseExpression) -> bool:
        """Whether an expression is of a class with a `fit` of its own, with which a tuner would train."""
        return any(
            context.values.classes.methods(value.node, "fit")
            for value in context.values.of(expression)
            if isinstance(value.node, cst.ClassDef)
        )

    def _makes_model(self, context: Context, expression: cst.BaseExpression) -> bool:
        """Whether an expression is a function, or a class of functions, in which a model is compiled."""
        values = self._of(context, expression)
        made = {v.node for v in values if v.kind is not Kind.UNKNOWN}
        inside = {
            a for call in context.training.keras.compiles for a in context.module.ancestors(call)
        }
        # `callback(self)` is handed an object, which is no way to make a model.
        return any(
            isinstance(node, (cst.FunctionDef, cst.ClassDef)) for node in made & inside
        ) and {v.kind for v in values} <= {Kind.FUNCTION, Kind.CLASS}

    def _of(self, context: Context, expression: cst.BaseExpression) -> frozenset[Value]:
        """What an expression may hold, of `functools.partial(f, …)` the function."""
        values = context.values.of(expression)
        begun = partial_call(context.values, values)
        return values if begun is None else context.values.of(begun.args[0].value)


#: Names of functions that train what they are given.
TRAINING_NAME = re.compile(
    r"(^|_)(re|pre)?_?(train|fit|learn|optimi[sz]e|fine_?tune)", re.IGNORECASE
)
#: What looks for the best arguments of a function: Optuna, Hyperopt, scikit-optimize, sweeps of Weights & Biases.
SEARCHING = re.compile(
    r"(^|[._])((gp_|forest_)?minimi[sz]e|maximi[sz]e|optimi[sz]e|fmin|agent|tune|Tuner|tune\.run)$"
)


RULES: tuple[type[Rule], ...] = (
    AlreadyHorovod,
    OtherDistribution,
    TF1,
    Estimators,
    HiddenFit,
    HiddenTraining,
    OtherBackend,
)
