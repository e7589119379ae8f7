"""HVD902: programs that distribute with `tf.distribute`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ..tensorflow import tf_api
from .base import Example, Finding, program
from .context import Context
from .refusal import Refusal, report_first_use


class OtherDistribution(Refusal):
    """Refuse programs that distribute by other means.

    Nothing. The program is refused.

    Why:
    A strategy for several processes and Horovod would both take the devices and both average the gradients.

    Known problems:
    Remove the strategy yourself: the converter does not know which batch size and rate you want then.

    When it does not apply:
    - To strategies for the devices of one process (`MirroredStrategy` and others): HVD104 replaces them.
    - To TPU code with an alternative in the program, `try: … except` or `if … else` with such a strategy: Horovod runs where there is no TPU.
    """

    code = "HVD902"
    name = "other distribution"
    rationale = "`tf.distribute` and Horovod would both average the gradients."
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
        yield from report_first_use(
            context,
            tf_api.OTHER_DISTRIBUTION,
            "this program already distributes, with {name}",
            "remove the strategy and its scope, so that the program trains in one process, then convert it",
            (*tf_api.LOCAL_STRATEGIES, *tf_api.WITH_LOCAL_STRATEGIES),
            lambda node, name: belongs_to_tpus(name) and self._has_alternative(context, node),
        )

    def _has_alternative(self, context: Context, node: cst.CSTNode) -> bool:
        """Whether the program has an alternative without this strategy: `except`, or an `else` with a strategy for local
        devices.
        """
        child = node
        for ancestor in context.module.ancestors(node):
            if isinstance(ancestor, cst.Try) and child is ancestor.body and ancestor.handlers:
                return True
            if isinstance(ancestor, cst.If) and child is ancestor.body:
                other = ancestor.orelse
                inside = {
                    a
                    for call in self._local_strategies(context)
                    for a in context.module.ancestors(call)
                }
                if other is not None and other in inside:
                    return True
            child = ancestor
        return False

    def _local_strategies(self, context: Context) -> Iterator[cst.Call]:
        """Yield the calls that make a strategy for the devices of one process."""
        for call in context.values.index.calls:
            if context.values.qualified(call.func) in tf_api.LOCAL_STRATEGIES:
                yield call


def belongs_to_tpus(name: str) -> bool:
    """Whether a canonical name belongs to TPU support, or to a module with TPU support."""
    return (
        "TPU" in name
        or name in ("tensorflow.distribute.cluster_resolver", "tensorflow.distribute.experimental")
        or name.startswith(("tensorflow.tpu.", "tensorflow.config.experimental_connect_to_cluster"))
    )
