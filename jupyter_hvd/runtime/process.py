"""Each rank as a process: it joins the others and takes a GPU of its own."""

from __future__ import annotations

from typing import Any


def start() -> None:
    """Start Horovod and take the GPU of the local rank, before TensorFlow takes them all.

    Raises:
        RuntimeError: Keras 3 is used, where Horovod would train without averaging.
    """
    import sys

    import horovod.tensorflow as hvd
    import tensorflow as tf

    _refuse_keras_3(tf.keras)
    _refuse_keras_3(sys.modules.get("keras"))
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")


def use_tf_keras() -> None:
    """Let Horovod, which takes its Keras by the name `keras`, find `tf_keras`; to be called before it is imported.

    Raises:
        RuntimeError: the program has imported Keras 3 by this name.
    """
    import sys

    import tf_keras

    _refuse_keras_3(sys.modules.get("keras"))
    sys.modules["keras"] = tf_keras


def _refuse_keras_3(keras: Any) -> None:
    if int(getattr(keras, "__version__", "2").split(".")[0]) > 2:
        raise RuntimeError(
            "Horovod does not average gradients in Keras 3: "
            "install tf-keras and set TF_USE_LEGACY_KERAS=1"
        )
