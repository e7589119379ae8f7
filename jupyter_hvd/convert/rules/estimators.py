"""HVD904: programs that train an Estimator."""

from __future__ import annotations

from collections.abc import Iterator

from ..tensorflow import tf_api
from .base import Example, Finding, program
from .context import Context
from .refusal import Refusal, report_first_use


class Estimators(Refusal):
    """Refuse programs that train an Estimator.

    Nothing. The program is refused.

    Why:
    An Estimator builds its own graph and sessions, which Horovod's operations cannot enter. TensorFlow has removed Estimators.

    Known problems:
    `model_to_estimator` of a Keras model is refused, too: train the Keras model with `fit` instead.

    When it does not apply:
    To `tf.estimator.ModeKeys` alone, whose names are constants.
    """

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
        yield from report_first_use(
            context,
            tf_api.ESTIMATORS,
            "{name} is an Estimator. TensorFlow has removed Estimators, and Horovod cannot distribute them",
            "write the model with Keras and train it with fit",
            tf_api.NO_ESTIMATORS,
        )
