"""HVD9: programs that cannot be right under Horovod, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ...analysis.syntax import argument
from ...frameworks.tensorflow import tf_api
from ..base import Example, Finding, Problem, program
from .context import Context, Rule
from .environment import settings
from .imports import is_own_work, uses_horovod


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


RULES: tuple[type[Rule], ...] = (
    AlreadyHorovod,
    OtherDistribution,
    TF1,
    Estimators,
    OtherBackend,
)
