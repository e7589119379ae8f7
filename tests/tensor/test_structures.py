"""Lists, dictionaries and tuples of arrays, of one part too, are what JAX knows as trees: gradients come back in their form."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, calls, tensor

R = np.random.default_rng(5)
X, W, V = R.uniform(0.3, 1.3, 3), R.uniform(0.3, 1.3, (3, 3)), R.uniform(0.3, 1.3, (3, 3))


class Named(NamedTuple):
    w: object


@dataclass
class Record:
    w: object


@tensor
def layers(Ws, x):
    for W in Ws:
        x = np.tanh(W @ x)
    return np.sum(x**2)


@tensor
def scaled(p, x):
    return np.sum(p["w"] * x)


@tensor
def attribute(p, x):
    return np.sum(p.w * x)


@tensor
def nested(p, x):
    return np.sum(p["l"][0]["w"] * x) ** 2 + p["b"]


@tensor
def stepped(Ws, x):
    for _ in range(50):
        Ws = [W - 0.1 * W * x[:, None] for W in Ws]
    return sum(np.sum(W**2) for W in Ws)


def layers_in_jax(Ws, x):
    for each in Ws:
        x = jnp.tanh(each @ x)
    return jnp.sum(x**2)


TREES = {
    "a list of equal shapes": (layers, [W, V], layers_in_jax),
    "a list of one": (layers, [W], layers_in_jax),
    "a tuple of one": (layers, (W,), layers_in_jax),
    "a dictionary of one": (scaled, {"w": X}, lambda p, x: jnp.sum(p["w"] * x)),
    "a number in it": (scaled, {"w": 2.0}, lambda p, x: jnp.sum(p["w"] * x)),
    "a named tuple of one": (attribute, Named(X), lambda p, x: jnp.sum(p.w * x)),
    "one in one in two": (
        nested,
        {"l": [{"w": X}], "b": 1.0},
        lambda p, x: jnp.sum(p["l"][0]["w"] * x) ** 2 + p["b"],
    ),
    "carried in a loop": (
        stepped,
        [W, V],
        lambda Ws, x: sum(jnp.sum((each * (1 - 0.1 * x[:, None]) ** 50) ** 2) for each in Ws),
    ),
}


def close(found, expected):
    leaves, tree = jax.tree_util.tree_flatten(expected)
    assert jax.tree_util.tree_structure(found) == tree
    for one, other in zip(jax.tree_util.tree_leaves(found), leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)


@pytest.mark.parametrize("name", TREES)
def test_gradients_have_the_form_of_what_is_given(name):
    f, tree, plain = TREES[name]
    expected = jax.grad(plain)(jax.tree_util.tree_map(jnp.asarray, tree), X)
    np.testing.assert_allclose(f(tree, X), plain(tree, X), rtol=1e-5)
    (first,) = {next(iter(f.__signature__.parameters))}
    for gradient in (f.grad(first), jax.jit(f.grad(first).jax), jax.grad(f.jax)):
        close(gradient(tree, X), expected)
        close(gradient(tree, X), expected)  # as a call that is known
    if f is not stepped:
        close(f.grad(first).interpret(tree, X), expected)


def test_a_dataclass_of_one_part():
    made = attribute.grad("p")(Record(X), X)
    assert isinstance(made, Record)
    np.testing.assert_allclose(made.w, X)


def test_a_list_of_numbers_is_an_array_with_and_without_jit():
    @tensor
    def squares(v):
        return sum(v[i] ** 2 for i in range(len(v)))

    for gradient in (squares.grad("v"), jax.jit(squares.grad("v").jax)):
        np.testing.assert_allclose(gradient([1.0, 2.0, 3.0]), [2, 4, 6])
    assert jax.grad(squares.jax)([1.0, 2.0]) == [2, 4]


def test_a_list_of_index_arrays_is_one():
    @tensor
    def both(pairs, x):
        return sum(x[pairs[e][0]] * x[pairs[e][1]] for e in range(len(pairs)))

    pairs = [np.array([0, 1]), np.array([1, 2])]
    for gradient in (both.grad("x"), jax.jit(both.grad("x").jax)):
        np.testing.assert_allclose(gradient(pairs, X), [X[1], X[0] + X[2], X[1]], rtol=1e-6)


def test_where_an_array_is_declared_a_list_is_one():
    @tensor
    def first(Ws: 'Float[Array, "k n n"]', x):  # noqa: F821, F722
        return np.sum(Ws[0] @ x)

    assert first.grad("Ws")([W, V], X).shape == (2, 3, 3)


def test_tuples_of_one_are_returned():
    @tensor
    def returned(x):
        return (np.sum(x),), {"a": x * 2}, Named(x)

    for f in (returned, returned.interpret, jax.jit(returned.jax)):
        close(f(X), ((X.sum(),), {"a": X * 2}, Named(X)))


def test_what_a_tree_of_one_part_costs_is_measured():
    scaled({"w": X}, X)
    assert "$" in str(scaled.certify("p"))


def test_an_array_of_tuples_of_one_part_is_refused():
    @tensor
    def listed(x):
        y = [(x[i],) for i in range(len(x))]
        return sum(v for (v,) in y)

    with pytest.raises(TensorError, match="one part") as refused:
        listed(X)
    assert "leave the tuple out" in str(refused.value)


@dataclass
class Model:
    layers: object
    scale: object


@tensor
def modelled(model, src, x):
    h = x
    for layer in model.layers:
        h = np.tanh(h * layer["w"])
    return model.scale * sum(h[src[e]] for e in range(len(src)))


def test_a_call_with_structures_like_one_before_is_not_checked_again(monkeypatch):
    """It was, and typed anew: 0.4 ms for one layer, 19 ms for twelve."""
    seen = []
    check = calls.check
    monkeypatch.setattr(calls, "check", lambda *call: seen.append(call) or check(*call))
    x, src, w = jnp.arange(4.0), jnp.array([1, 3]), jnp.ones(4)

    def value(w, src=src, kind=list):
        return modelled(Model(kind([{"w": w}, {"w": w}]), 2.0), src, x)

    for _ in range(2):
        for k in (1, 2):
            expected = 2 * np.tanh(k * np.tanh(k * np.array([1, 3]))).sum()
            np.testing.assert_allclose(value(k * w), expected, rtol=1e-6)
    assert len(seen) == 1
    value(w, kind=tuple), value(w, kind=tuple)
    assert len(seen) == 2
    # Indices of the same type: they have to be looked at.
    with pytest.raises(TensorError, match="reads index 4 of 4 entries"):
        value(w, jnp.array([1, 4]))
    gradient = modelled.grad("model")
    for kind in (list, tuple, list):
        found = gradient(Model(kind([{"w": w}, {"w": w}]), 2.0), src, x)
        assert (type(found), type(found.layers), found.layers[0].keys()) == (Model, kind, {"w"})


def test_lists_are_joined_and_repeated_as_in_python():
    def f(x, days, weights):
        total = 0.0
        for k, closed in enumerate(days * 3):
            total += x[k % 2] * (2.0 if closed else 1.0) * (k + 1)
        more, again = weights + [x[0]], [1] + days  # noqa: RUF005
        return total + sum(more) + len(weights * 2) + len(again)

    arguments = np.array([0.5, -1.0]), [1, 0, 1], [0.25, 2.0]
    g = tensor(f)
    assert g(*arguments) == pytest.approx(f(*arguments))
    assert g.grad("x")(*arguments)[0] == pytest.approx(
        f(np.array([1.5, -1.0]), *arguments[1:]) - f(*arguments)
    )


def test_integers_that_are_changed_in_place_are_examined_again():
    f = tensor(lambda x, k: np.sum(x[k] ** 2))
    x, k = np.array([1.0, 2.0, 3.0]), np.array([0, 1])
    assert [float(f(x, k)) for _ in range(3)] == [5.0] * 3
    k[0] = 2
    assert f(x, k) == 13.0
    k[0] = 5
    with pytest.raises(TensorError, match="reads index 5"):
        f(x, k)


SCALE = [2.0]


class Particle(NamedTuple):
    x: object
    v: object

    @property
    def potential(self):
        return SCALE[0] * np.sum(self.x**2)

    def stepped(self, dt):
        return Particle(self.x + dt * self.v, self.v - dt * 2 * self.x)

    def energy(self, m):
        return 0.5 * m * np.sum(self.v**2) + self.potential

    @classmethod
    def at_rest(cls, x):
        return cls(x, 0.0 * x)


@dataclass
class Layer:
    w: object
    kind: str = "tanh"
    power: int = 2

    def __call__(self, x):
        return self.activated(self.w @ x) ** self.power

    def activated(self, x):
        return np.tanh(x) if self.kind == "tanh" else x

    @staticmethod
    def half(x):
        return x / 2


def orbit(p, dt):
    for _ in range(5):
        p = p.stepped(dt)
    return p.energy(1.5) + Particle.at_rest(p.x).energy(1.0)


def test_methods_of_named_tuples():
    f, p = tensor(orbit), Particle(X, 1 - X)
    np.testing.assert_allclose(f(p, 0.1), orbit(p, 0.1))
    expected = jax.grad(orbit)(Particle(*map(jnp.asarray, p)), 0.1)
    close(f.grad("p")(p, 0.1), expected)


def test_methods_of_a_dataclass_with_parts_that_are_no_arrays():
    def through(layer, x):
        return np.sum(layer(x)) + layer.half(layer.power) * np.sum(x)

    f = tensor(through)
    for layer in (Layer(W), Layer(W, "none", 3)):
        np.testing.assert_allclose(f(layer, X), through(layer, X))
        step = 1e-6 * np.eye(3)
        slopes = [through(layer, X + d) - through(layer, X - d) for d in step]
        np.testing.assert_allclose(f.grad("x")(layer, X), np.array(slopes) / 2e-6, rtol=1e-6)


def test_what_a_method_reads_is_looked_at_in_each_call():
    f, p = tensor(orbit), Particle(X, 1 - X)
    for scale in (2.0, 3.0, 2.0, 2.0):
        SCALE[0] = scale
        np.testing.assert_allclose(f(p, 0.1), orbit(p, 0.1))


def test_a_method_that_there_is_not_is_refused_with_the_parts():
    with pytest.raises(TensorError, match=r"`Particle` has no `\.mass` here") as refused:
        tensor(lambda p: p.mass())(Particle(X, X))
    assert "`x`, `v`" in refused.value.help
