"""HVD904: programs that train an Estimator."""

from __future__ import annotations

from collections.abc import Iterator

from ...frameworks.tensorflow import tf_api
from ..base import Example, Finding, program
from .context import Context
from .refusal import Refusal, uses


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
            "{name} is an Estimator. TensorFlow has removed Estimators, and Horovod cannot distribute them",
            "write the model with Keras and train it with fit",
            tf_api.NO_ESTIMATORS,
        )
