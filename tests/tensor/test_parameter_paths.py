"""Derivatives by parts of parameters, `params.w`, `layers[0]["b"]`: JAX's by the whole, of which they are parts."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(5)
X = R.normal(size=(6, 3))


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: list
    scale: Any


jax.tree_util.register_dataclass(Model, ["layers", "scale"], [])
LAYERS = [
    Layer(R.normal(size=(3, 4)), R.normal(size=4)),
    Layer(R.normal(size=(4, 2)), R.normal(size=2)),
]
MODEL = Model(LAYERS, {"gain": np.array(0.7), "bias w": R.normal(size=2)})


def loss(model, x):
    h = x
    for layer in model.layers:
        h = np.tanh(h @ layer.w + layer.b)
    out = model.scale["gain"] * h + model.scale["bias w"]
    return np.sum(out**2)


def in_jax(model, x):
    h = x
    for layer in model.layers:
        h = jax.numpy.tanh(h @ layer.w + layer.b)
    out = model.scale["gain"] * h + model.scale["bias w"]
    return jax.numpy.sum(out**2)


F = tensor(loss)


@pytest.fixture(scope="module")
def by_all():
    return jax.grad(in_jax)(MODEL, X)


def test_gradients_by_parts_are_parts_of_the_gradient(by_all):
    for path, expected in {
        "model.layers[1].w": by_all.layers[1].w,
        "model.scale['gain']": by_all.scale["gain"],
        'model.scale["bias w"]': by_all.scale["bias w"],
    }.items():
        np.testing.assert_allclose(F.grad(path)(MODEL, X), expected, rtol=1e-10)


def test_parts_compose_with_everything_else(by_all):
    value, (by_w, by_x, by_scale) = F.value_and_grad("model.layers[0].w", "x", "model.scale")(
        MODEL, X
    )
    assert value == pytest.approx(float(in_jax(MODEL, X)))
    np.testing.assert_allclose(by_w, by_all.layers[0].w)
    np.testing.assert_allclose(by_x, jax.grad(in_jax, 1)(MODEL, X))
    np.testing.assert_allclose(by_scale["gain"], by_all.scale["gain"])
    by_layer = F.grad("model.layers[1]")(MODEL, X)
    assert isinstance(by_layer, Layer)
    np.testing.assert_allclose(by_layer.b, by_all.layers[1].b)

    direction = R.normal(size=4)
    moved = F.jvp("model.layers[0].b")(MODEL, X, direction)
    np.testing.assert_allclose(moved, by_all.layers[0].b @ direction)
    np.testing.assert_allclose(
        F.jvp("model.layers[0].b")(MODEL, X, dmodel_layers_0_b=direction), moved
    )
    np.testing.assert_allclose(F.vjp("model.layers[0].b")(MODEL, X, 2.0), 2 * by_all.layers[0].b)
    hessian = F.hessian("model.layers[1].b")(MODEL, X)
    expected = jax.hessian(
        lambda b: in_jax(Model([LAYERS[0], Layer(LAYERS[1].w, b)], MODEL.scale), X)
    )(LAYERS[1].b)
    np.testing.assert_allclose(hessian, expected, rtol=1e-8)

    @tensor
    def penalised(model, x):
        return np.sum(F.grad("model.layers[1].b")(model, x) ** 2)

    np.testing.assert_allclose(penalised(MODEL, X), np.sum(by_all.layers[1].b ** 2))
    again = jax.tree_util.tree_map(np.asarray, F.grad("model.layers[1].b")(MODEL, X))
    np.testing.assert_allclose(again, by_all.layers[1].b)


def test_parts_of_a_function_with_an_auxiliary_result():
    @tensor
    def with_aux(params, x):
        y = x @ params["w"]
        return np.sum(y**2) + np.sum(params["c"]), y

    params = {"w": R.normal(size=3), "c": R.normal(size=2)}
    (value, y), gradient = with_aux.value_and_grad("params.w", has_aux=True)(params, X)
    assert value == pytest.approx(np.sum(y**2) + np.sum(params["c"]))
    np.testing.assert_allclose(gradient, 2 * X.T @ (X @ params["w"]))
    gradient, aux = with_aux.grad("params['c']", has_aux=True)(params, X)
    np.testing.assert_allclose(gradient, np.ones(2))
    np.testing.assert_allclose(aux, y)


def test_parts_of_a_container_that_has_other_things_too():
    @tensor
    def fitted(given, x):
        y = x[:, given["column"]] * given["w"][0] + given["w"][1]
        return np.sum(y**2) if given["kind"] == "squared" else np.sum(y)

    given = {"w": np.array([0.5, -1.0]), "column": 1, "kind": "squared"}
    y = X[:, 1] * 0.5 - 1
    np.testing.assert_allclose(
        fitted.grad("given.w")(given, X), [2 * np.sum(y * X[:, 1]), 2 * np.sum(y)]
    )
    with pytest.raises(TensorError, match=r"(?s)no part `given.column`.*it has `given.w`"):
        fitted.grad("given.column")(given, X)


def test_errors_name_the_parts_that_there_are():
    paths = r"`model.layers\[0\].w`, `model.layers\[0\].b`, .*`model.scale\['bias w'\]`"
    with pytest.raises(TensorError, match=r"(?s)no part `model.layers\[2\].w`.*" + paths):
        F.grad("model.layers[2].w")(MODEL, X)
    with pytest.raises(TensorError, match=r"(?s)no part `x.w`.*`x`"):
        F.grad("x.w")(MODEL, X)
    with pytest.raises(TensorError, match=r"no parameter `mode\.layers`"):
        F.grad("mode.layers")
    with pytest.raises(TensorError, match="full parameter"):
        F.jacobian("model.layers[0].b")
