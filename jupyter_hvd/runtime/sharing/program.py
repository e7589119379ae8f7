"""A program for one process, run by N ranks as it is: one seed, one set of files, sharing from its first import of TensorFlow."""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..observe import Function, observe

#: The seed of all ranks' generators, where the program sets none.
SEED_VARIABLE = "JUPYTER_HVD_SEED"
#: "0" where ranks do not compare their data.
GUARD_VARIABLE = "JUPYTER_HVD_GUARD"
#: Which rank reads what: see `start_shared`.
DATA_VARIABLE = "JUPYTER_HVD_DATA"
#: Which batch the ranks of a notebook share, where they share what cells compute.
BATCH_VARIABLE = "JUPYTER_HVD_BATCH"
#: "1" where a job that is started again goes on after the epochs of `fit` that it has completed.
RESUME_VARIABLE = "JUPYTER_HVD_RESUME"
FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
_installed: list[Any] = []
_begun = False


def share_program() -> None:
    """Share what this process runs from now on, once it has imported TensorFlow."""
    global _begun
    _begun = True
    seed_early()
    if "tensorflow" in sys.modules:
        start_sharing()
    else:
        sys.meta_path.insert(0, FrameworkFinder(start_sharing))


def has_begun() -> bool:
    """Whether this process shares what it runs, or will when it has imported TensorFlow."""
    return _begun


class FrameworkFinder(importlib.abc.MetaPathFinder):
    """An import hook that calls a function once after a framework's outermost import, and then removes itself.

    TensorFlow is not imported earlier: the program may set environment variables first.

    Args:
        then: the function. names: of the frameworks.
    """

    def __init__(self, then: Callable[[], None], names: tuple[str, ...] = FRAMEWORKS) -> None:
        self._then, self._names = then, names
        self._depth = 0

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Find a framework's module; once TensorFlow and all that was being imported are complete, a function is called, once."""
        if name not in self._names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            self._depth += 1
            try:
                execute(module)
            finally:
                self._depth -= 1
            if self._depth == 0 and "tensorflow" in sys.modules and self in sys.meta_path:
                sys.meta_path.remove(self)
                self._then()

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


def seed_early() -> None:
    """Let Python's and NumPy's generators draw the same on all ranks, seeded or not."""
    seed = os.environ.get(SEED_VARIABLE)
    if seed is None:
        return
    import numpy as np

    random.seed(int(seed))
    np.random.seed(int(seed))
    drawn = random.Random(int(seed))  # noqa: S311 — as the program itself would
    # What `numpy.random.default_rng()` draws its seed from.
    np.random.bit_generator.randbits = drawn.getrandbits  # type: ignore[attr-defined]


def start_sharing() -> None:
    """Start Horovod, and share calls of layers and models where there are several ranks."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    from ..process import start
    from ..scaling import pretend_ranks
    from .context import sharing
    from .report import report_nothing_shared

    global _begun
    _begun = True
    state = random.getstate()
    start()
    require_equal_starts()
    sharing.guarded = os.environ.get(GUARD_VARIABLE, "1") != "0"
    sharing.data = os.environ.get(DATA_VARIABLE, "each")
    sharing.begin_sharing(hvd.rank(), hvd.size())
    if sharing.active:
        install_sharing(tf.keras)
        share_other_keras()
        if (
            BATCH_VARIABLE not in os.environ
        ):  # the ranks of a notebook may have had no cell to share
            atexit.register(report_nothing_shared)
    if os.environ.get(RESUME_VARIABLE) == "1":
        from . import resumed_fits

        resumed_fits.install_resuming(tf.keras)
    seed_tensorflow()
    random.setstate(state)
    pretend_ranks()


def share_other_keras() -> None:
    """Share the calls of the second Keras, such as `tf_keras` beside Keras 3, once it has been imported."""
    from . import keras_versions
    from .report import report_line

    (other,) = {"keras", "tf_keras"} - {installed_keras().package.__name__}
    if other not in sys.modules:
        sys.meta_path.insert(0, FrameworkFinder(share_other_keras, (other,)))
        return
    module = sys.modules[other]
    try:
        install_keras(module)
    except keras_versions.UntestedVersionError:
        report_line(
            f"the layers of {other} {module.__version__} run unsharded on every rank, with the same result and no speedup: "
            "sharing was not tested with it."
        )


class CommonSeed(int):
    """The global TensorFlow seed that all ranks get because the program sets none."""


def seed_tensorflow(generator: bool = True) -> None:
    """Let TensorFlow's generators draw the same on all ranks. An operation that the program gives a seed of its own draws what
    it draws in one process without a global seed.

    Args:
        generator: make the global generator, too, which is TensorFlow's first tensor.
    """
    import tensorflow as tf

    seed = os.environ.get(SEED_VARIABLE)
    if seed is not None:
        tf.random.set_seed(CommonSeed(seed))
        random_seed = importlib.import_module("tensorflow.python.framework.random_seed")
        observe(random_seed, "get_seed", functools.partial(seeds_without_common, random_seed))
        if generator:
            tf.random.set_global_generator(tf.random.Generator.from_seed(int(seed)))
        drawn = random.Random(int(seed))  # noqa: S311 — as TensorFlow would, from the system

        def from_drawn_state(_: Function, kind: Any, alg: Any = None) -> Any:
            return kind.from_seed(drawn.getrandbits(63), alg)

        observe(tf.random.Generator, "from_non_deterministic_state", from_drawn_state)


def seeds_without_common(random_seed: Any, get_seed: Function, op_seed: Any) -> Any:
    """Return the two seeds of an operation; a `CommonSeed` counts as not set.

    Args:
        random_seed: TensorFlow's module. get_seed: its function.
    """
    import tensorflow as tf

    from .keras_versions import eager_seed

    eager = tf.executing_eagerly()
    seed = eager_seed() if eager else tf.compat.v1.get_default_graph().seed
    if op_seed is not None and isinstance(seed, CommonSeed):
        return random_seed.DEFAULT_GRAPH_SEED, random_seed._truncate_seed(op_seed)
    return get_seed(op_seed)


def require_equal_starts() -> None:
    """Check that all ranks start with the rank and seed that their launcher gave them before Horovod started.

    Raises:
        RuntimeError: this is another rank than the launcher said, or ranks have other seeds, or another TensorFlow or Keras.
    """
    import horovod.tensorflow as hvd

    from .launch_environment import launched_by
    from .report import report_line

    launched = launched_by(os.environ)
    if launched is not None and launched.rank != hvd.rank():
        raise RuntimeError(
            f"jupyter_hvd: the launcher has started this process as rank {launched.rank}, and Horovod counts it as rank "
            f"{hvd.rank()} of {hvd.size()}: start the ranks with horovodrun or `jupyter hvd run`"
        )
    if hvd.size() == 1:
        return
    own = (os.environ.get(SEED_VARIABLE), hash(SEED_VARIABLE), framework_versions())
    starts = hvd.allgather_object(own, name="jupyter_hvd.starts")
    seeds, hashes, versions = zip(*starts, strict=True)
    if len(set(versions)) > 1:
        told = "; ".join(f"rank {rank} has {version}" for rank, version in enumerate(versions))
        raise RuntimeError(
            f"jupyter_hvd: the ranks compute with different versions: {told}. Install the same on all hosts"
        )
    if len(set(seeds)) > 1:
        raise RuntimeError(
            f"jupyter_hvd: the ranks have different seeds: set {SEED_VARIABLE} to one number for all of them"
        )
    if len(set(hashes)) > 1 and hvd.rank() == 0:
        report_line(
            "Python goes through a set of words in another order on each rank. If the program's result depends on that order, "
            "set PYTHONHASHSEED=0 for all ranks, as `jupyter hvd run` does."
        )


def framework_versions() -> str:
    """Return the versions of TensorFlow and of its Keras, in words."""
    import tensorflow as tf

    name = tf.keras.Model.__module__.partition(".")[0]
    return f"TensorFlow {tf.__version__} and {name} {sys.modules[name].__version__}"


def install_sharing(module: Any) -> None:
    """Replace the functions of TensorFlow and its Keras that sharing needs to observe.

    Raises:
        UntestedVersionError: sharing was not tested with these versions.
    """
    import tensorflow as tf

    from . import gradients, keras_versions, own_rows, random_ops, rank_zero_data, sharded_reads

    install_keras(module)
    gradients.install_gradients(keras_versions.raw_operations("gradients"))
    random_ops.install_draws(keras_versions.raw_operations)
    rank_zero_data.install_reads()
    observe(tf.data.Dataset, "__iter__", sharded_reads.make_iterator)
    observe(tf.saved_model, "save", save_unshared)
    keras_versions.vectorize_collectives()
    observe(keras_versions.compiled_function(), "__call__", call_compiled)
    for owner in (tf, tf.compat.v2):
        observe(owner, "function", compile_without_xla)
        observe(owner, "shape", own_rows.shape_by_own_rows)


def install_keras(module: Any) -> None:
    """Replace the functions of a Keras that sharing needs to observe.

    Raises:
        UntestedVersionError: sharing was not tested with it and this TensorFlow.
    """
    from . import calls, keras_versions, large_outputs, own_rows, rank_zero_data

    keras = keras_versions.keras_of(module)
    observe(keras.Layer, "__call__", functools.partial(calls.call_layer, keras))
    large_outputs.install_losses(keras)
    own_rows.install_steps(keras)
    rank_zero_data.install_keras(keras)
    keras.install_batch_norm()
    keras.install_recurrent()
    keras.install_sequential()
    for name in ("save", "export"):
        if hasattr(module.Model, name):
            observe(module.Model, name, save_unshared)
    _installed.append(keras)


def call_compiled(call: Function, function: Any, /, *args: Any, **options: Any) -> Any:
    """Call a compiled function unsharded: it stores what it was traced for, and must not be traced for own rows.

    One of Keras' own, such as a step inside its loop, is part of its caller, and may get own rows.
    """
    from .context import sharing
    from .own_rows import has_read_rows

    sharing.refuse_sharing("it calls a tf.function")
    python = function.python_function
    if has_read_rows((args, options)) and any(k.is_own_function(python) for k in _installed):
        return python(*args, **options)
    return call(function, *args, **options)


def save_unshared(save: Function, /, *args: Any, **options: Any) -> Any:
    """Save a model without the functions that share it."""
    from .context import sharing

    with sharing.run_whole():
        result = save(*args, **options)
    for path in [v for v in (*args, *options.values()) if isinstance(v, str | os.PathLike)]:
        graph = Path(path) / "saved_model.pb"
        if graph.is_file() and b"HorovodAll" in graph.read_bytes():
            raise RuntimeError(
                f"jupyter_hvd: {path} would need Horovod to be loaded: a function that was saved was compiled while "
                "it was shared. Save the weights or a .keras file, and export these in a program without --batch global."
            )
    return result


def compile_without_xla(function: Function, /, *args: Any, **options: Any) -> Any:
    """Call `tf.function` without XLA, which cannot communicate."""
    options.pop("jit_compile", None)
    options.pop("experimental_compile", None)
    return function(*args, **options)


def installed_keras() -> Any:
    """Return the interface to the Keras of `tf.keras`."""
    return _installed[0]
