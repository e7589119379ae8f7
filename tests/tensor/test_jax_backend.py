"""The JAX back end against the reference evaluator."""

from random import Random

import jax
import numpy as np
from random_programs import INPUTS, PARAMETERS, Draw, environment

from jupyter_hvd.tensor import jax_backend, tensor
from jupyter_hvd.tensor.semantics import evaluate
from jupyter_hvd.tensor.tensor_function import Instance, struct_of_arrays
from jupyter_hvd.tensor.trace import Traced


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value, dtype=float)]


def test_random_programs_agree_with_the_evaluator():
    """Without jit, which would spend its time compiling."""
    compared = 0
    for seed in range(120):
        random = Random(seed)
        function = Draw(random).program(4)
        n, m = random.randrange(1, 4), random.randrange(1, 4)
        env = environment(random, n, m)
        expected = struct_of_arrays(evaluate(function.body, env), function.body.type)
        instance = Instance(
            tuple((x, t, None) for x, t in PARAMETERS),
            Traced(function, None, {}, {}),
            Traced(function, None, {}, {}),
        )
        data = {
            "R": np.array([[env.relations["R"]((i, j)) for j in range(m)] for i in range(n)]),
            "src": np.array(
                [next(j for j in range(m) if env.relations["src"]((i, j))) for i in range(n)]
            ),
        }
        arguments = [
            data[x] if x in data else jax.tree_util.tree_map(float, env.values[x])
            for x, _ in PARAMETERS
        ]
        arguments = [_arrays(argument) for argument in arguments]
        with jax.disable_jit():
            found = jax_backend.compiled(instance, env.integers)(*arguments)
        for a, b in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, err_msg=str(seed))
        compared += 1
    assert compared == 120
    assert {x for x, _ in INPUTS} <= {x for x, _ in PARAMETERS}


def _arrays(value):
    return tuple(map(_arrays, value)) if isinstance(value, tuple) else np.asarray(value)


def test_results_have_the_precision_of_the_arguments():
    @tensor
    def mean(x):
        return sum(x[i] for i in range(len(x))) / len(x)

    x = np.ones(3, np.float32)
    assert mean(x).dtype == np.float32
    assert mean(x.astype(np.float64)).dtype == np.float64
    assert mean(jax.numpy.ones(3, jax.numpy.bfloat16)).dtype == jax.numpy.bfloat16


def test_derivatives_by_jax_from_outside_stay_finite_behind_guards():
    @tensor
    def guarded(x):
        return sum(np.log(x[i]) if i > 0 else 0 for i in range(len(x)))

    found = jax.grad(guarded.jax)(np.array([0.0, 2.0, 4.0]))
    np.testing.assert_allclose(found, [0, 0.5, 0.25])
