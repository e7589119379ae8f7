"""HVD903: programs of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Iterator

from ..tensorflow import tf_api
from .base import Example, Finding, program
from .context import Context
from .refusal import Refusal, report_first_use


class TF1(Refusal):
    """Refuse programs of TensorFlow 1.

    Nothing. A program with sessions, placeholders, `tf.compat.v1.train` or disabled eager execution is refused.

    Why:
    The rules are for eager TensorFlow 2. A session runs one graph that is built once, and needs Horovod's hooks for sessions.

    Known problems:
    `tf_upgrade_v2` renames functions, but leaves sessions: migrate those by TensorFlow's guide (tensorflow.org/guide/migrate).

    When it does not apply:
    To other names of `tf.compat.v1`, which TensorFlow 2 runs eagerly.
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
        yield from report_first_use(
            context,
            tf_api.TF1,
            "{name} belongs to TensorFlow 1",
            "bring the program to TensorFlow 2 first: tensorflow.org/guide/migrate",
        )
