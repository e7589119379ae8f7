"""Programs, random programs and compositions under the JAX that runs this: `test_jax_versions.py` runs
it under an older one too, in an environment of its own.
"""

import random as random_
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

from programs import CASES  # noqa: E402
from random_programs import PARAMETERS, Draw, environment  # noqa: E402

from jupyter_hvd.tensor import tensor  # noqa: E402
from jupyter_hvd.tensor.jax.device_shards import shard_map  # noqa: E402
from jupyter_hvd.tensor.jax.devices import planned_for  # noqa: E402
from jupyter_hvd.tensor.jax.kernel import Kernel  # noqa: E402
from jupyter_hvd.tensor.lowering.device import CPU  # noqa: E402
from jupyter_hvd.tensor.reference.evaluate import evaluate  # noqa: E402
from jupyter_hvd.tensor.ssa import normalize as normal  # noqa: E402
from jupyter_hvd.tensor.ssa import simplify  # noqa: E402
from jupyter_hvd.tensor.ssa.convert import to_ssa, to_term  # noqa: E402


def same(found, expected, tolerance=1e-9):
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(
            np.asarray(a, float), np.asarray(b, float), rtol=tolerance, atol=tolerance
        ),
        found,
        expected,
    )


def programs():
    for case in CASES:
        same(case.function(*case.arguments), case.function.interpret(*case.arguments))
        if case.name != "additions":
            gradient = case.function.grad(*case.wrt)
            same(gradient(*case.arguments), gradient.interpret(*case.arguments))
        if case.hessian:
            hessian = case.function.hessian(case.hessian)
            same(hessian(*case.arguments), hessian.interpret(*case.arguments))


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value, dtype=float)]


def arrays(value):
    if isinstance(value, tuple):
        return tuple(map(arrays, value))
    return np.asarray(value, dtype=float)


def random_programs(count):
    for seed in range(3000, 3000 + count):
        random = random_.Random(seed)
        function = Draw(random).program(4)
        n, m = random.randrange(1, 4), random.randrange(1, 4)
        env = environment(random, n, m)
        holds = [[env.relations["R"]((i, j)) for j in range(m)] for i in range(n)]
        source = [next(j for j in range(m) if env.relations["src"]((i, j))) for i in range(n)]
        data = {"R": np.array(holds), "src": np.array(source)}
        arguments = [data[x] if x in data else arrays(env.values[x]) for x, _ in PARAMETERS]
        program = simplify.simplify(to_ssa(normal.normalize(function.body)))
        kernel = Kernel(program, list(PARAMETERS), env.integers)
        with jax.disable_jit():
            found = kernel.run(*kernel.arrays(tuple(arguments)))
        for a, b in zip(leaves(found), leaves(evaluate(to_term(program), env)), strict=True):
            np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-9, atol=1e-9)


@tensor
def energy(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n) if j <= i) for i in range(n)]
    return sum(np.sin(y[i]) * x[i] for i in range(n))


def compositions():
    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(6, 6)), rng.normal(size=6)
    xs = rng.normal(size=(8, 6))
    expected = energy.grad("x")(A, x)
    same(jax.jit(energy.grad("x").jax)(A, x), expected)
    same(jax.grad(energy.jax, 1)(A, x), expected)
    same(jax.vmap(energy.grad("x").jax, (None, 0))(A, xs)[3], energy.grad("x")(A, xs[3]))
    same(
        jax.jit(jax.vmap(jax.grad(energy.jax, 1), (None, 0)))(A, xs)[2], energy.grad("x")(A, xs[2])
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    here = jax.sharding.PartitionSpec("d")
    rows = shard_map(
        jax.vmap(energy.jax, (None, 0)), mesh, (jax.sharding.PartitionSpec(), here), here
    )
    same(jax.jit(rows)(A, xs), [energy(A, row) for row in xs])
    for dtype, tolerance in ((jnp.float32, 1e-4), (jnp.bfloat16, 0.1)):
        found = energy.grad("x")(jnp.asarray(A, dtype), jnp.asarray(x, dtype))
        assert found.dtype == dtype
        same(found.astype(float), expected, tolerance)


def fences_and_blocks():
    """What only large arrays use, at a size where it can be checked."""
    case = next(c for c in CASES if c.name == "laplacian")
    u = np.random.default_rng(0).normal(size=(300, 300))
    same(case.function.grad("u")(u), jax.grad(case.direct)(u))
    same(jax.grad(case.function.jax)(u), jax.grad(case.direct)(u))
    case = next(c for c in CASES if c.name == "gravity")
    x, m = np.random.default_rng(0).normal(size=(37, 3)), np.ones(37)
    with planned_for(replace(CPU, intermediate=100, block=300)):
        same(case.function.grad("x", "m")(x, m), jax.grad(case.direct, (0, 1))(x, m))
        same(jax.grad(case.function.jax)(x, m), jax.grad(case.direct)(x, m))


if __name__ == "__main__":
    programs()
    random_programs(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    compositions()
    fences_and_blocks()
    print("JAX", jax.__version__, "agrees")
