"""`f.tf` and `TensorLoss`: tensor functions within TensorFlow, beside what TensorFlow computes itself."""

from dataclasses import dataclass

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

pytestmark = pytest.mark.slow  # TensorFlow is imported


@pytest.fixture(scope="module", autouse=True)
def tensorflow():
    """Imported when these tests run, not whenever tests are looked for."""
    global tf
    import tensorflow as tf


@pytest.fixture(scope="module")
def random():
    return np.random.default_rng(0)


@tensor
def energy(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))


@tensor
def looked_up(x, src):
    return [2 * x[src[e]] for e in range(len(src))]


@tensor
def smooth(prediction, target):
    n, m = prediction.shape
    misfit = sum((prediction[i, j] - target[i, j]) ** 2 for i in range(n) for j in range(m))
    bends = sum(
        (prediction[i, j + 1] - prediction[i, j]) ** 2 for i in range(n) for j in range(m - 1)
    )
    return (misfit + 0.1 * bends) / n


def smooth_in_tensorflow(prediction, target):
    n = tf.cast(tf.shape(prediction)[0], prediction.dtype)
    bends = tf.reduce_sum((prediction[:, 1:] - prediction[:, :-1]) ** 2)
    return (tf.reduce_sum((prediction - target) ** 2) + 0.1 * bends) / n


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_value_and_gradients_are_those_of_the_function(random, dtype):
    A, x = random.normal(size=(4, 4)).astype(dtype), random.normal(size=4).astype(dtype)
    a, v = tf.constant(A), tf.Variable(x)
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = energy.tf(a, v)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, energy(A, x))
    for found, expected in zip(tape.gradient(y, [a, v]), energy.grad("A", "x")(A, x), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-14)


def test_gradients_have_gradients(random):
    A, x = random.normal(size=(4, 4)), tf.Variable(random.normal(size=4))
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = energy.tf(A, x)
        slope = tf.reduce_sum(inner.gradient(y, x) ** 2)
    S = A + A.T
    np.testing.assert_allclose(outer.gradient(slope, x), 2 * S @ S @ x.numpy(), rtol=1e-12)


def test_sizes_that_a_compiled_step_does_not_know():
    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None, 3])])
    def step(prediction, target):
        with tf.GradientTape() as tape:
            tape.watch(prediction)
            loss = smooth.tf(prediction, target)
        return loss, tape.gradient(loss, prediction)

    for n in (1, 2, 5):
        given = tf.random.normal([n, 3]), tf.random.normal([n, 3])
        with tf.GradientTape() as tape:
            tape.watch(given[0])
            expected = smooth_in_tensorflow(*given)
        loss, gradient = step(*given)
        np.testing.assert_allclose(loss, expected, rtol=1e-5)
        np.testing.assert_allclose(
            gradient, tape.gradient(expected, given[0]), rtol=1e-5, atol=1e-6
        )


def test_shapes_are_known_where_the_arguments_are():
    @tf.function
    def shape_of(x):
        y = looked_up.tf(x, tf.constant([0, 2, 2, 1]))
        return tf.constant(y.shape.as_list())

    assert shape_of(tf.ones(3)).numpy().tolist() == [4]


def test_index_arrays_are_tensors_too_and_have_no_gradient():
    x, src = tf.Variable([1.0, 2.0, 3.0]), tf.constant([0, 0, 2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = looked_up.tf(x, src)
    np.testing.assert_array_equal(y, [2, 2, 6])
    np.testing.assert_array_equal(tape.gradient(y, x), [4, 0, 2])


@dataclass
class Weights:
    w: object
    b: object


@tensor
def affine(p, x):
    n = len(x)
    return [p.w[i] * x[i] for i in range(n)], p.b * sum(x)


@pytest.mark.parametrize("compiled", [False, True])
def test_arguments_and_results_of_several_parts(compiled):
    w, b, x = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0), tf.constant([1.0, 1.0, 2.0])

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            parts, whole = affine.tf(Weights(w, b), x)
            y = tf.reduce_sum(parts**2) + whole
        return tape.gradient(y, [w, b])

    dw, db = (tf.function(gradients) if compiled else gradients)()
    np.testing.assert_allclose(dw, 2 * w * x**2)
    np.testing.assert_allclose(db, 4)


def test_a_copy_has_an_op_of_its_own():
    assert energy.tf is energy.tf
    assert energy.sharded("i").tf is not energy.tf


def test_errors_name_the_line():
    with pytest.raises(TensorError, match=r"src\[2\] is 7"):
        looked_up.tf(tf.ones(3), tf.constant([0, 0, 7]))
    with pytest.raises(TensorError, match="reads index"):
        energy.tf(tf.ones([4, 4]), tf.ones(5))

    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec([None])])
    def step(A, x):
        return energy.tf(A, x)

    # TensorFlow puts its own class of errors around those of a function that it compiles.
    with pytest.raises(Exception, match="whose rank TensorFlow does not know"):
        step.get_concrete_function()


# In Keras


def model():
    tf.keras.utils.set_random_seed(1)
    return tf.keras.Sequential(
        [tf.keras.Input([4]), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(3)]
    )


def trained(loss):
    made = model()
    made.compile(tf.keras.optimizers.SGD(0.05), loss=loss)
    x = np.random.default_rng(1).normal(size=(50, 4)).astype("float32")
    # 50 examples in batches of 16: the last is smaller.
    made.fit(x, x[:, :3] ** 2, batch_size=16, epochs=3, shuffle=False, verbose=0)
    return made


def test_a_loss_trains_as_the_same_in_tensorflow():
    from jupyter_hvd.tensor.keras import TensorLoss

    ours = trained(TensorLoss(smooth, wrt="prediction"))
    theirs = trained(lambda target, prediction: smooth_in_tensorflow(prediction, target))
    for found, expected in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@tensor
def chosen(scores, label: "Int[Array, 'n']", weight):  # noqa: F821
    return [-weight * scores[i, label[i]] for i in range(len(label))]


def test_labels_are_integers_and_other_parameters_are_given():
    from jupyter_hvd.tensor.keras import TensorLoss

    loss = TensorLoss(chosen, wrt="scores", weight=2.0)
    found = loss(np.array([1, 0]), np.array([[1.0, 5.0], [3.0, 7.0]], "float32"))
    np.testing.assert_allclose(found, -2 * (5 + 3) / 2)


def test_which_parameters_a_loss_has():
    from jupyter_hvd.tensor.keras import TensorLoss

    with pytest.raises(TensorError, match="one of them can be the target"):
        TensorLoss(chosen, wrt="scores")
    with pytest.raises(TensorError, match="no parameter `speed`"):
        TensorLoss(chosen, wrt="scores", speed=3)
    with pytest.raises(TensorError, match="is given, too"):
        TensorLoss(smooth, wrt="prediction", prediction=3)
    with pytest.raises(TensorError, match="no parameter `y`"):
        TensorLoss(smooth, wrt="y")


def test_a_saved_model_finds_its_loss_where_that_is_defined(tmp_path):
    from jupyter_hvd.tensor.keras import TensorLoss

    made = trained(TensorLoss(smooth, wrt="prediction"))
    made.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(
        tmp_path / "model.keras", custom_objects={"TensorLoss": TensorLoss}
    )
    assert loaded.loss.function is smooth
    config = TensorLoss(chosen, wrt="scores", weight=2.0).get_config()
    again = TensorLoss.from_config(config)
    assert again.given["weight"] == 2.0
    config["function"] = ["elsewhere", "gone"]
    with pytest.raises(ValueError, match="compile=False"):
        TensorLoss.from_config(config)
