"""What `verify` runs to see what rounding does to a training: the same gradients, added up in another order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

GRADIENTS = """
import functools
import numpy as np
import tensorflow as tf
from jupyter_hvd.runtime.observe import Observation
from jupyter_hvd.runtime.sharing.keras_versions import gradient_registry
from jupyter_hvd.verify.exact.rounding import BROADCASTS, SUMS, look_up_gradient

def transposed(x, w):
    return tf.nn.conv2d_transpose(x, w, [tf.shape(x)[0], 8, 8, 2], 1)

CASES = {  # the operation, the shapes of a row and of the weights
    "MatMul": (tf.matmul, (6,), (6, 3)),
    "Conv2D": (functools.partial(tf.nn.conv2d, strides=1, padding="SAME"), (8, 8, 2), (3, 3, 2, 4)),
    "Conv3D": (functools.partial(tf.nn.conv3d, strides=[1] * 5, padding="SAME"), (4, 4, 4, 2), (3, 3, 3, 2, 4)),
    "DepthwiseConv2dNative": (
        functools.partial(tf.nn.depthwise_conv2d, strides=[1] * 4, padding="SAME"), (8, 8, 2), (3, 3, 2, 1)
    ),
    "BiasAdd": (tf.nn.bias_add, (8, 8, 4), (4,)),
    "Conv2DBackpropInput": (transposed, (8, 8, 4), (3, 3, 2, 4)),
    "AddV2": (tf.add, (5, 4), (4,)),
    "Sub": (tf.subtract, (5, 4), (4,)),
    "Mul": (tf.multiply, (5, 4), (4,)),
    "BatchMatMulV2": (tf.matmul, (5, 6), (6, 3)),
    "BatchMatMulV3": (tf.matmul, (5, 6), (6, 3)),
}
assert {*CASES} == {*SUMS, *BROADCASTS} - {"Conv3DBackpropInputV2"}

def gradients(function, x, w):
    with tf.GradientTape() as tape:
        tape.watch((x, w))
        loss = tf.reduce_sum(tf.sin(3 * function(x, w)))
    return tape.gradient(loss, (x, w))

registry = gradient_registry()
kind = type(registry)
random = np.random.default_rng(0)
for name, (function, row, weights) in CASES.items():
    w = tf.constant(random.normal(size=weights), tf.float32)
    spec = (tf.TensorSpec((None, *row)), tf.TensorSpec(weights))
    moved = 0
    # Of no rows TensorFlow itself leaves the gradient of a depthwise convolution unwritten: there is nothing to compare with.
    for count in (17, 1) if name == "DepthwiseConv2dNative" else (17, 1, 0):
        x = tf.constant(random.normal(size=(count, *row)), tf.float32)
        for compiled in (False, True):
            def found():
                step = functools.partial(gradients, function)
                return (tf.function(step, input_signature=spec) if compiled else step)(x, w)

            plain = found()
            observation = Observation()
            observation.observe(kind, "lookup", functools.partial(look_up_gradient, registry, 3))
            pieces = found()
            observation.end()
            assert np.array_equal(plain[0], pieces[0]), name
            assert np.allclose(plain[1], pieces[1], rtol=0, atol=1e-5 * (1 + np.abs(plain[1]).max(initial=0))), name
            moved += int(np.sum(plain[1].numpy() != pieces[1].numpy()))
    assert moved, f"{name}: nothing is rounded otherwise"
"""


@pytest.mark.slow
@pytest.mark.long
def test_gradients_in_pieces_differ_in_rounding_alone(
    run_forked_script: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    script = tmp_path / "gradients.py"
    script.write_text(GRADIENTS)
    done = run_forked_script(script)
    assert done.returncode == 0, done.stderr
