"""Data-parallel energies on eight virtual CPU devices; `test_sharded.py` runs this in a process of
its own, under the old JAX and the new one.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from jupyter_hvd.tensor import TensorError, tensor  # noqa: E402


@tensor
def logistic(w, b, X, y):
    n, d = X.shape
    z = [sum(X[k, j] * w[j] for j in range(d)) + b for k in range(n)]
    data = sum(np.log(1 + np.exp(-y[k] * z[k])) for k in range(n))
    return data / n + 0.5 * sum(w[j] ** 2 for j in range(d))


@tensor
def springs(x, src, dst, rest):
    return sum((x[src[e]] - x[dst[e]] - rest[e]) ** 2 for e in range(len(rest)))


@tensor
def spread(x, w):
    """The sums are read again, so that they are added up before the end."""
    n = len(x)
    mean = sum(w[k] * x[k] for k in range(n))
    return sum((x[k] - mean) ** 2 for k in range(n)) ** 2


@tensor
def weighted(w, R):
    """The tuples do not follow the index that is divided."""
    n, m = len(w), 4
    return sum(w[k] * sum(1 for i in range(m) for j in range(m) if (i, j) in R) for k in range(n))


@tensor
def trace(A):
    return sum(A[k, k] for k in range(len(A)))


@tensor
def numbered(x):
    return sum(x[k_1] for k_1 in range(len(x)))


@tensor
def neighbours(x):
    return sum((x[k + 1] - x[k]) ** 2 for k in range(len(x) - 1))


def all_reduces(function, *arguments):
    instance, named, sizes, _ = function.specialised(*arguments)
    from jupyter_hvd.tensor.jax.backend import kernel
    from jupyter_hvd.tensor.jax.shards import sharded
    from jupyter_hvd.tensor.lowering.sharding import divided

    made = kernel(instance, sizes)
    arrays = made.arrays(tuple(named.values()))
    axes = divided(instance.checked.function.body, instance.checked.called(function._shards[0]))
    jitted = sharded(made.plan(arrays), arrays, axes, jax.devices())
    text = jitted.lower(*arrays).compile().as_text()
    return sum(" all-reduce(" in line or " all-reduce-start(" in line for line in text.splitlines())


def same(found, expected):
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found, expected
    )


def refused(function, *arguments):
    try:
        function(*arguments)
    except TensorError as error:
        return str(error)
    raise AssertionError("not refused")


def main():
    assert len(jax.devices()) == 8
    rng = np.random.default_rng(0)
    w, b, X, y = rng.normal(size=5), 0.3, rng.normal(size=(64, 5)), rng.normal(size=64)
    data = logistic.sharded(index="k")
    same(data(w, b, X, y), logistic(w, b, X, y))
    for names in (("w", "b"), ("w",), ("X", "w")):
        gradient = data.grad(*names)
        same(gradient(w, b, X, y), logistic.grad(*names)(w, b, X, y))
        same(logistic.grad(*names).sharded(index="k")(w, b, X, y), gradient(w, b, X, y))
        assert all_reduces(gradient, w, b, X, y) == 1, names
    same(data.value_and_grad("w")(w, b, X, y), logistic.value_and_grad("w")(w, b, X, y))
    assert all_reduces(data.value_and_grad("w"), w, b, X, y) == 1
    divided = data.grad("X")(w, b, X, y)
    assert len(divided.sharding.device_set) == 8
    assert divided.addressable_shards[0].data.shape == (8, 5)

    src, dst = rng.integers(0, 20, 80), rng.integers(0, 20, 80)
    x, rest = rng.normal(size=20), rng.normal(size=80)
    edges = springs.sharded(index="e").grad("x", "rest")
    same(edges(x, src, dst, rest), springs.grad("x", "rest")(x, src, dst, rest))
    assert all_reduces(springs.sharded(index="e").grad("x"), x, src, dst, rest) == 1

    x, w = rng.normal(size=16), rng.normal(size=16)
    same(spread.sharded("k")(x, w), spread(x, w))
    same(spread.sharded("k").grad("x", "w")(x, w), spread.grad("x", "w")(x, w))
    same(spread.sharded("k", devices=4).grad("x")(x, w), spread.grad("x")(x, w))

    factor = weighted.sharded("k")
    for size in (1, 2, 4):  # a set of another size is another kernel, frozen or not
        pairs = {(k, k) for k in range(size)}
        assert factor(np.ones(16), pairs) == factor(np.ones(16), frozenset(pairs)) == size * 16

    w = rng.normal(size=5)
    assert "cannot share" in refused(data, w, b, X[:63], y[:63])
    assert "across the shares" in refused(neighbours.sharded("k"), rng.normal(size=17))
    assert "along two axes" in refused(trace.sharded("k"), rng.normal(size=(8, 8)))
    assert "no parameter is read" in refused(logistic.sharded("q"), w, b, X, y)
    assert "no parameter is read" in refused(numbered.sharded("k"), x)
    same(numbered.sharded("k_1")(x), numbered(x))
    print("sharded: all agree, one all-reduce a gradient")


if __name__ == "__main__":
    main()
