"""HVD9: programs that cannot be right under Horovod, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import method
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ..base import Example, Finding, Problem, program
from .context import Context, Rule
from .imports import first_import, imports_horovod, is_own_work


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
    message = "The program already uses Horovod."
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
        node = imports_horovod(context)
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

    A strategy and Horovod both take the devices and both average gradients.
    """

    code = "HVD902"
    name = "other distribution"
    message = "Two ways of distributing do not go together."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.MirroredStrategy()
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
        )


class TF1(Refusal):
    """The program uses TensorFlow 1: sessions, placeholders, graph mode.

    The rules are about eager TensorFlow 2. A session runs one graph, built once, and needs
    Horovod's hooks for sessions.
    """

    code = "HVD903"
    name = "TensorFlow 1"
    message = "Sessions need other rules than eager TensorFlow 2."
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
    message = "Estimators run their own sessions."
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
        )


def uses(context: Context, names: tuple[str, ...], message: str, advice: str) -> Iterator[Problem]:
    """One problem for the first use of any of these names, those that end in a dot being prefixes."""
    for node in (
        *context.values.index.attributes,
        *(call.func for call in context.values.index.calls),
    ):
        name = context.values.qualified(node)
        if any(
            name == wanted or (wanted.endswith(".") and name.startswith(wanted)) for wanted in names
        ):
            yield Problem(node, message.format(name=context.module.text(node)), advice)
            return


class HiddenFit(Refusal):
    """A `fit` of something that may or may not be a Keras model.

    `fit` of a scaler is left alone, `fit` of a model must be converted. Where nothing in
    the program tells which it is, neither is right.
    """

    code = "HVD905"
    name = "unknown fit"
    message = "It must be known which fit trains a Keras model."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit_generator(batches())
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
            if name in ("fit_generator", "train_on_batch") and context.training.is_model(receiver):
                yield Problem(
                    call,
                    f"{name} is not covered by the rules",
                    "use fit, which takes generators too"
                    if name == "fit_generator"
                    else "use fit, or a GradientTape",
                )
            elif (
                name == "fit"
                and call not in context.training.fits
                and self._is_open(context, receiver)
            ):
                yield Problem(
                    call,
                    "nothing in this program tells whether this fit trains a Keras model",
                    "make the model in this file; if it is none, add  # hvd: ignore[HVD905]",
                )

    def _is_open(self, context: Context, receiver: cst.BaseExpression) -> bool:
        """Whether a receiver may be a model for all that this module says; what a library made has a name."""
        if first_import(context) is None or context.training.is_model(receiver) is not None:
            return False
        return all(not value.name for value in context.values.of(receiver))


class HiddenTraining(Refusal):
    """A model or an optimizer is handed to a function of another module, which may train it.

    The rules see one file. What another module does
    with the model, it does on every rank by itself.
    """

    code = "HVD906"
    name = "training elsewhere"
    message = "What another module does with a model is not converted."
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
                import keras_tuner
                import tensorflow as tf


                def build(choices):
                    model = tf.keras.Sequential([tf.keras.layers.Dense(choices.Int('width', 8, 64))])
                    model.compile('adam', loss='mse')
                    return model


                keras_tuner.RandomSearch(build, objective='val_loss').search(x, y, validation_split=0.2)
                """
            ),
            None,
            "The tuner trains the models that it has made.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = context.values.qualified(call.func)
            if not name or (name.startswith(KNOWN_LIBRARIES) and not name.startswith(WRAPPERS)):
                continue
            if any(self._makes_model(context, arg.value) for arg in call.args):
                yield Problem(
                    call,
                    f"a function that makes a model is handed to {context.module.text(call.func)}, which trains it where it cannot be seen from here",
                    "search on one process, then train the model that is chosen with fit in this file",
                )
            if any(context.values.may_be(arg.value, Role.OPTIMIZER) for arg in call.args):
                yield Problem(
                    call,
                    f"an optimizer is handed to {context.module.text(call.func)}, of another module, which cannot be seen from here",
                    "bring the training into this file, or convert that module's step by hand",
                )

    def _makes_model(self, context: Context, expression: cst.BaseExpression) -> bool:
        """Whether an expression is a function, or a class of functions, in which a model is compiled."""
        made = {v.node for v in context.values.of(expression) if v.kind is not Kind.UNKNOWN}
        inside = {a for call in context.training.compiles for a in context.module.ancestors(call)}
        return any(
            isinstance(node, (cst.FunctionDef, cst.ClassDef)) for node in made & inside
        ) and (context.values.kinds(expression) <= {Kind.FUNCTION, Kind.CLASS, Kind.INSTANCE})


#: Of a known library, what does train: the scikit-learn wrappers of older Keras.
WRAPPERS = ("tensorflow.keras.wrappers.",)

#: Libraries that are known not to train what they are handed.
KNOWN_LIBRARIES = (
    "tensorflow.",
    "builtins.",
    "numpy.",
    "matplotlib.",
    "sklearn.",
    "pandas.",
    "horovod.",
)


RULES: tuple[type[Rule], ...] = (
    AlreadyHorovod,
    OtherDistribution,
    TF1,
    Estimators,
    HiddenFit,
    HiddenTraining,
)
