"""Data-parallel energies on eight virtual CPU devices; `test_sharded.py` runs this in a process of
its own, under the old JAX and the new one.
"""

import linecache
import os
import re
import sys
from itertools import product
from math import prod

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from jupyter_hvd.tensor import TensorError, tensor  # noqa: E402

#: The first random program, and how many.
FEW = 2
SEED, PROGRAMS = (*map(int, sys.argv[1:]), 1, FEW)[:2]


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
def twice(x, w):
    """Of sums that are added up at once one is made of another."""
    mean = sum(w[k] * x[k] for k in range(len(x)))
    return sum((x[k] - 2 * mean) ** 2 for k in range(len(x))) + np.exp(mean)


@tensor
def offset(x, c):
    """What all devices have is added to a sum that is read again."""
    return np.log(sum(x[k] * x[k] for k in range(len(x))) + c)


@tensor
def weighted(w, R):
    """The tuples do not follow the index that is divided."""
    n, m = len(w), 4
    return sum(w[k] * sum(1 for i in range(m) for j in range(m) if (i, j) in R) for k in range(n))


@tensor
def looked_up(v, p):
    """At places that are computed: of v in all shares, and of p in each."""
    return sum(
        (v[np.clip(np.floor(p[k]).astype(int), 0, len(v) - 1)] - p[k]) ** 2 for k in range(len(p))
    )


@tensor
def in_order(X, w):
    """Rows are put in order where they lie."""
    ordered = np.sort(X, axis=1)
    return sum(ordered[row, j] * w[j] for row in range(len(X)) for j in range(len(w)))


@tensor
def largest_of_rows(X, w):
    """Rows are reduced where they lie."""
    largest = np.max(X, axis=1)
    return sum(w[row] * largest[row] ** 2 * X[row, j] for row in range(len(X)) for j in range(3))


@tensor
def largest_of_columns(X):
    """What has the rows of all devices is reduced by none."""
    return sum(np.max(X, axis=0)[j] * X[row, j] for row in range(len(X)) for j in range(3))


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
    text = compiled(function, *arguments)
    return sum(" all-reduce(" in line or " all-reduce-start(" in line for line in text.splitlines())


def compiled(function, *arguments):
    """What XLA makes of a divided function."""
    instance, named, sizes, _ = function.specialised(*arguments)
    from jupyter_hvd.tensor.jax.backend import kernel
    from jupyter_hvd.tensor.jax.device_shards import jit_sharded
    from jupyter_hvd.tensor.lowering.sharding import Division, divided_axes

    made = kernel(instance, sizes)
    arrays = made.arrays(tuple(named.values()))
    body = instance.checked.function.body
    divisions = [
        Division(divided_axes(body, instance.checked.called(index)), count or len(jax.devices()))
        for index, count in function._shards
    ]
    jitted = jit_sharded(made.plan(arrays), arrays, divisions, jax.devices())
    return jitted.lower(*arrays).compile().as_text()


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


@tensor
def smooth(u, c):
    """A stencil of a stencil, along the first of two axes, with what is no zero at zero."""
    n, m = u.shape
    v = [
        [np.exp(u[k, j]) + c[k] * (u[k - 1, j] if k > 0 else u[k, j]) for j in range(m)]
        for k in range(n)
    ]
    w = [
        [
            (v[k + 2, j] if k + 2 < n else 1.0) - 2 * v[k, j] + (v[k - 1, j] if k > 0 else 0.5)
            for j in range(m)
        ]
        for k in range(n)
    ]
    return sum(np.cos(w[k, j]) for k in range(n) for j in range(m))


@tensor
def stepped(u):
    """What is returned has as many rows as there are, whatever the shares."""
    n = len(u)
    return [1 / (2 + u[k + 1] - u[k]) for k in range(n - 1)]


@tensor
def field(x, y):
    """Its terms are so many that they are made in blocks."""
    return [sum(np.exp(-((x[k] - y[j]) ** 2)) for j in range(len(y))) for k in range(len(x))]


def check_halos(rng):
    x, y = rng.normal(size=4100), rng.normal(size=2048)
    same(field.sharded("k")(x, y), field(x, y))
    for n in (17, 16, 64, 9, 3, 2) if PROGRAMS > FEW else (17, 64, 3):
        x = rng.normal(size=n)
        same(neighbours.sharded("k")(x), neighbours(x))
        same(neighbours.sharded("k").grad("x")(x), neighbours.grad("x")(x))
        same(neighbours.grad("x").sharded("k")(x), neighbours.grad("x")(x))
        x = rng.uniform(size=n)
        same(stepped.sharded("k")(x), stepped(x))
        same(stepped.sharded("k").vjp("u")(x, dy=x[1:]), stepped.vjp("u")(x, dy=x[1:]))
    for n in (20, 64, 8, 5) if PROGRAMS > FEW else (20, 5):
        u, c = rng.normal(size=(n, 3)), rng.normal(size=n)
        for devices in (8, 3):
            shared = smooth.sharded("k", devices=devices)
            same(shared(u, c), smooth(u, c))
            same(shared.grad("u", "c")(u, c), smooth.grad("u", "c")(u, c))
    # One row to each neighbour, of each array that is read beyond a share.
    u = rng.normal(size=64)
    text = compiled(neighbours.sharded("k").grad("x"), u)
    sent = [line for line in text.splitlines() if " collective-permute(" in line]
    assert all("f64[1]" in line for line in sent), sent
    assert " all-gather(" not in text


FUNCTIONS = (
    "np.exp({0})",
    "np.sin({0})",
    "1 / (2 + {0} * {0})",
    "{0} * {0}",
    "np.log(3 + np.cos({0}))",
)


def stencils(rng):
    """A chain of stencils along `k`, each with what is read beyond the ends left out, a number, or the end itself."""
    lines, names = ["def f(u, c):", "    n = len(u)"], ["u", "c"]
    for level in range(rng.integers(1, 4)):
        addends = []
        for _ in range(rng.integers(1, 4)):
            source, shift = rng.choice(names), int(rng.integers(-3, 4))
            inside = f"0 <= k + {shift} < n"
            beyond = rng.choice(["0", "0.5", "c[k]", f"{source}[0]", f"{source}[n - 1]"])
            read = f"({source}[k + {shift}] if {inside} else {beyond})"
            addends.append(rng.choice(FUNCTIONS).format(read))
        value = rng.choice([" + ", " * "]).join(addends)
        lines.append(f"    v{level} = [{value} for k in range(n)]")
        names.append(f"v{level}")
    last = names[-1]
    how = f"np.log(1 + sum({last}[k] ** 2 * c[k] ** 2 for k in range(n)) + c[0] ** 2)"
    lines.append(f"    return {rng.choice([how, f'sum({last}[k] * u[k] for k in range(n))'])}")
    return "\n".join(lines)


def planes(rng):
    """As `stencils`, of two indices, sums along one of them in between."""
    lines, names = ["def f(u, c):", "    n, m = u.shape"], ["u"]
    for level in range(rng.integers(1, 3)):
        addends = []
        for _ in range(rng.integers(1, 4)):
            source, a, b = rng.choice(names), *map(int, rng.integers(-2, 3, 2))
            inside = f"0 <= k + {a} < n and 0 <= j + {b} < m"
            beyond = rng.choice(["0", "0.5", "c[k]", f"{source}[k, j]"])
            read = f"({source}[k + {a}, j + {b}] if {inside} else {beyond})"
            addends.append(rng.choice(FUNCTIONS).format(read))
        value = rng.choice([" + ", " * "]).join(addends)
        lines.append(f"    v{level} = [[{value} for j in range(m)] for k in range(n)]")
        names.append(f"v{level}")
    last = names[-1]
    lines.append(f"    r = [c[k] + sum({last}[k, j] for j in range(m)) for k in range(n)]")
    lines.append(f"    q = [sum({last}[k, j] * u[k, j] for k in range(n)) for j in range(m)]")
    ends = "sum(r[k] ** 2 for k in range(n))", "sum(q[j] for j in range(m))", "c[0] * q[0]"
    lines.append(
        f"    return {rng.choice([' + ', ' * ']).join(rng.choice(ends, 2, replace=False))}"
    )
    return "\n".join(lines)


def check_random(rng, count, draw=stencils):
    refused = 0
    for _ in range(count):
        source = draw(rng)
        space = {"np": np}
        exec(compile(source, "<stencil>", "exec"), space)
        linecache.cache["<stencil>"] = (
            len(source),
            None,
            source.splitlines(keepends=True),
            "<stencil>",
        )
        f = tensor(space["f"])
        if draw is stencils:
            n, devices = int(rng.integers(2, 40)), int(rng.integers(2, 9))
            u, c = rng.normal(size=n), rng.normal(size=n)
            shared = f.sharded("k", devices=devices)
        else:
            n, devices = int(rng.integers(2, 12)), tuple(map(int, rng.integers(1, 5, 2)))
            devices = devices if prod(devices) <= 8 else (2, 3)
            u, c = rng.normal(size=(n, int(rng.integers(1, 12)))), rng.normal(size=n)
            shared = f.sharded("k", devices[0]).sharded("j", devices[1])
        try:
            same(shared(u, c), f(u, c))
            same(shared.grad("u", "c")(u, c), f.grad("u", "c")(u, c))
        except Exception as error:
            # Where an axis has one entry, a sum may read it at a place that is along neither index.
            if draw is planes and "across the shares" in str(error):
                refused += 1
                continue
            print(source, n, devices)
            raise
    assert refused <= count / 2


@tensor
def residual(A, x, y, w):
    """Rows along `k` that are partial sums along `j`, and are added up before they are squared."""
    n, m = A.shape
    r = [sum(A[k, j] * np.sin(x[j]) for j in range(m)) - y[k] for k in range(n)]
    return sum(w[k] * r[k] ** 2 for k in range(n)) + sum(x[j] ** 4 for j in range(m)) + w[0]


@tensor
def waves(u, c):
    """A stencil of a stencil with corners, in both directions; beyond its ends other things."""
    n, m = u.shape
    v = [
        [
            np.exp(u[k, j] / 4)
            + (u[k - 1, j - 1] if k > 0 and j > 0 else c[k])
            + (u[k + 1, j + 2] if k < n - 1 and j < m - 2 else 0.5)
            for j in range(m)
        ]
        for k in range(n)
    ]
    return sum(
        np.cos(v[k, j]) * (v[k + 1, j - 1] if k < n - 1 and j > 0 else v[k, j])
        for k in range(n)
        for j in range(m)
    )


@tensor
def moved(u, c):
    """A row's sum has what all devices of a row have, and is read further on; at 3×2 it is one entry, of the corner."""
    n, m = u.shape
    v = [[u[k + 2, j - 1] if k + 2 < n and j > 0 else 0 for j in range(m)] for k in range(n)]
    r = [c[k] + sum(v[k, j] for j in range(m)) for k in range(n)]
    return [r[k + 1] - r[k] for k in range(n - 1)]


@tensor
def both(x, y):
    """What is returned has its shares along both."""
    return [[1 / (1 + (x[k] - y[j]) ** 2) for j in range(len(y))] for k in range(len(x))]


def check_grids(rng):
    """Devices in a grid."""
    counts = ((2, 4), (4, 2), (8, 1), (2, None), (3, 2))
    shapes = ((16, 8), (9, 13), (3, 2), (1, 6), (6, 1))
    cases = product(counts, shapes) if PROGRAMS > FEW else zip(counts, shapes, strict=True)
    for (rows, columns), (n, m) in cases:
        A, x, y, w = (rng.normal(size=s) for s in ((n, m), m, n, n))
        shared = residual.sharded("k", rows).sharded("j", columns)
        same(shared(A, x, y, w), residual(A, x, y, w))
        names = ("A", "x", "y", "w")
        same(shared.grad(*names)(A, x, y, w), residual.grad(*names)(A, x, y, w))
        u, c = rng.normal(size=(n + 2, m + 2)), rng.normal(size=n + 2)
        same(waves.sharded("k", rows).sharded("j", columns)(u, c), waves(u, c))
        same(both.sharded("k", rows).sharded("j", columns)(x, y), both(x, y))
        u, c = rng.normal(size=(n + 2, m + 1)), rng.normal(size=n + 2)
        same(moved.sharded("k", rows).sharded("j", columns)(u, c), moved(u, c))
    u, c = rng.normal(size=(11, 9)), rng.normal(size=11)
    grid = waves.sharded("k", 2).sharded("j")
    same(grid.grad("u", "c")(u, c), waves.grad("u", "c")(u, c))
    found = both.sharded("k", 2).sharded("j")(rng.normal(size=16), rng.normal(size=8))
    assert found.addressable_shards[0].data.shape == (8, 2)
    # A row of 8 up and one down, columns of 16 with the corner, one back and two on; of v a row and a column.
    u, c = rng.normal(size=(32, 32)), rng.normal(size=32)
    text = compiled(waves.sharded("k", 2).sharded("j", 4), u, c)
    assert sorted(sent(text)) == [8, 8, 8, 16, 17, 2 * 17], sent(text)
    assert " all-gather(" not in text
    assert "divided already" in refused(lambda: waves.sharded("k").sharded("k"))
    assert "nothing says how many" in refused(waves.sharded("k").sharded("j"), u, c)
    assert "there are 8 devices, not 12" in refused(waves.sharded("k", 4).sharded("j", 3), u, c)
    x = rng.normal(size=8)
    assert "along one axis" in refused(pairs.sharded("k", 2).sharded("j", 2), x)


@tensor
def pairs(x):
    return sum(x[k] ** 2 for k in range(len(x))) * sum(x[j] for j in range(len(x)))


def sent(text):
    """The entries that each device sends, message by message."""
    shapes = re.findall(r"f64\[([0-9,]*)\]\S* collective-permute(?:-start)?\(", text)
    return [int(np.prod([int(n) for n in shape.split(",") if n])) for shape in shapes]


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

    same(twice.sharded("k")(x, w), twice(x, w))
    same(twice.sharded("k").grad("x", "w")(x, w), twice.grad("x", "w")(x, w))

    same(offset.sharded("k")(x, 3.0), offset(x, 3.0))
    same(offset.sharded("k").grad("x", "c")(x, 3.0), offset.grad("x", "c")(x, 3.0))

    factor = weighted.sharded("k")
    for size in (1, 2, 4):  # a set of another size is another kernel, frozen or not
        pairs = {(k, k) for k in range(size)}
        assert factor(np.ones(16), pairs) == factor(np.ones(16), frozenset(pairs)) == size * 16

    v, p = rng.normal(size=20), rng.uniform(-2, 23, size=63)
    for n in (63, 9, 3) if PROGRAMS > FEW else (63, 3):
        same(looked_up.sharded("k")(v, p[:n]), looked_up(v, p[:n]))
        for name in ("v", "p"):
            same(looked_up.sharded("k").grad(name)(v, p[:n]), looked_up.grad(name)(v, p[:n]))
    A, c = rng.normal(size=(20, 80)), rng.normal(size=80)
    same(in_order.sharded("row").grad("X")(A, c), in_order.grad("X")(A, c))
    for B in (A - 9, A[:16]):  # rows of zeros behind the last one would be larger
        w = rng.normal(size=len(B))
        gradient = largest_of_rows.grad("X")
        same(largest_of_rows.sharded("row").grad("X")(B, w), gradient(B, w))
    assert "across the shares" in refused(largest_of_columns.sharded("row"), A)

    w = rng.normal(size=5)
    for n in (63, 9, 3, 1) if PROGRAMS > FEW else (63, 3):
        same(data(w, b, X[:n], y[:n]), logistic(w, b, X[:n], y[:n]))
        for name in ("w", "X"):
            same(data.grad(name)(w, b, X[:n], y[:n]), logistic.grad(name)(w, b, X[:n], y[:n]))
    check_halos(rng)
    check_grids(rng)
    check_random(np.random.default_rng(SEED), PROGRAMS)
    check_random(np.random.default_rng(SEED), max(2, PROGRAMS // 2), planes)
    assert "along two axes" in refused(trace.sharded("k"), rng.normal(size=(8, 8)))
    assert "no parameter is read" in refused(logistic.sharded("q"), w, b, X, y)
    assert "no parameter is read" in refused(numbered.sharded("k"), x)
    same(numbered.sharded("k_1")(x), numbered(x))
    print("sharded: all agree, one all-reduce a gradient")


if __name__ == "__main__":
    main()
