"""HVD104: a strategy of one process's devices becomes that of one device."""

from __future__ import annotations

from collections.abc import Iterator

from ..tensorflow import tf_api
from .base import Example, Finding, Fix, program
from .context import TENSORFLOW, Context, Rule


class Strategy(Rule):
    """Replace a strategy for all devices of a process by that of one device.

    `MirroredStrategy(…)`, `OneDeviceStrategy(…)` and `CentralStorageStrategy(…)` become `tf.distribute.get_strategy()`. The strategy's `scope`,
    `run` and `reduce` stay, for one replica.

    Why:
    `MirroredStrategy` averages over the GPUs of one host. With Horovod each rank has one GPU, and Horovod averages over the ranks of all hosts.

    Known problems:
    `strategy.num_replicas_in_sync` is 1 afterwards, so a batch size that the program multiplies by it is that of one device.

    When it does not apply:
    To strategies for several processes or for TPUs (`MultiWorkerMirroredStrategy`, `ParameterServerStrategy`, `TPUStrategy`): HVD902 refuses these programs.
    """

    code = "HVD104"
    name = "strategy"
    rationale = "Each rank has one device, and Horovod averages over all of them, so the strategy is that of one device."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.MirroredStrategy(devices=['GPU:0', 'GPU:1'])
                with strategy.scope():
                    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                    model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                strategy = tf.distribute.get_strategy()
                with strategy.scope():
                    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                    model.compile('sgd', loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = context.values.qualified(call.func)
            if name in tf_api.LOCAL_STRATEGIES and not name.endswith(".get_strategy"):
                own = context.replace(call, f"{context.tf}.distribute.get_strategy()")
                yield Fix(call, (own,), needs=(TENSORFLOW,))
