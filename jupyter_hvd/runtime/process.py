"""Starts a rank's process: it joins the others and takes its GPU."""

from __future__ import annotations

from typing import Any

#: In the folder of a job's state it asks the ranks to end, with this exit code, when they have kept what they go on from.
_RESIZE: str = "resize"
_RESIZED: int = 75


def start() -> None:
    """Start Horovod and reserve the GPU of the local rank, before TensorFlow reserves all GPUs.

    Raises:
        RuntimeError: Keras does not use TensorFlow, two versions of Keras are mixed, or there are fewer GPUs than ranks.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf

    _check_keras()
    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if gpus:
        tf.config.set_visible_devices(_own_gpu(gpus, hvd.local_rank(), hvd.local_size()), "GPU")


def _own_gpu(gpus: list[Any], rank: int, size: int) -> Any:
    """Return the GPU of a local rank.

    Raises:
        RuntimeError: there is none for it.
    """
    if len(gpus) < size:
        count = f"{len(gpus)} GPU{'s' * (len(gpus) != 1)}"
        raise RuntimeError(
            f"{size} ranks run on this host, which has {count}, and each takes one: start at most {len(gpus)} here, "
            "or set CUDA_VISIBLE_DEVICES= to train on the CPU"
        )
    return gpus[rank]


def _check_keras() -> None:
    """Check that only one Keras is in use, and that Horovod can average its gradients.

    Raises:
        RuntimeError: the check fails; the message says what to do.
    """
    import sys

    import tensorflow as tf

    backend = tf.keras.backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Keras computes with {backend} here, whose gradients Horovod for TensorFlow cannot average: "
            "set KERAS_BACKEND=tensorflow, or take it out of ~/.keras/keras.json"
        )
    used = tf.keras.Model.__module__.partition(".")[0]
    if used == "keras" and "tf_keras" in sys.modules:
        raise RuntimeError(
            "two versions of Keras are loaded, tf_keras and, as tf.keras, Keras 3; models of one cannot train with "
            "the other: set TF_USE_LEGACY_KERAS=1, which makes tf.keras that of tf_keras"
        )
    if used == "tf_keras" and "keras" in sys.modules:
        raise RuntimeError(
            "two versions of Keras are loaded, Keras 3 as keras and, as tf.keras, tf_keras; models of one cannot train "
            "with the other: import keras from tensorflow, or unset TF_USE_LEGACY_KERAS"
        )


def _broadcast_value(file: Any, value: int = 0) -> int:
    """Return rank 0's value on all ranks. Ends the program on all ranks where its elastic job continues with another
    size.

    Args:
        file: the program's checkpoint, which is complete.
    """
    import sys

    import horovod.tensorflow as hvd

    resized = hvd.rank() == 0 and file.with_name(_RESIZE).exists()
    resized, agreed = hvd.broadcast_object((resized, value), root_rank=0)
    if resized:
        sys.exit(_RESIZED)
    return int(agreed)
