"""Each pass of the lowering is needed: with it left out, JAX sees another program of a function that it is for."""

import importlib
from pathlib import Path

import jax.numpy as jnp
import pytest

from jupyter_hvd.tensor import tensor

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
#: For each pass the gradient or value of a program of the benchmarks, as in docs/performance-tables.md.
CHANGED = {
    "windows": "circulant residual: gradient",
    "boxed": "moving_average: gradient",
    "conditions": "coulomb_mask: value",
    "columns": "n-body, i<j: value",
    "blocked": "n-body, i<j: value",
    "part_by_part": "diagonal_dot: gradient",
    "barriers": "black_box_elbo: value",
    "slopes": "catenary chain: gradient",
    "recomputed": "gradbench_kmeans: gradient",
    "margins": "5-point blur energy: gradient",
    "scaled_before": "circulant residual: gradient",
    "as_read": "batch_norm: value",
    "repetition": "batch_norm: gradient",
    "flat_sums": "gray_scott: gradient",
}


@tensor
def column_sums(X):
    n, m = X.shape
    return sum(sum(X[i, j] for i in range(n)) ** 2 for j in range(m))


@tensor
def symmetric(A):
    n = len(A)
    return [[A[i, j] + A[j, i] for j in range(n)] for i in range(n)]


#: Of passes for which the benchmarks have none, a function and the shape of its argument.
OWN = {"row_by_row": (column_sums, (256, 20_000)), "both_ways": (symmetric, (1_000, 1_000))}


@pytest.fixture
def ablation(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("ablation")


def test_every_pass_is_left_out_somewhere(ablation):
    assert {*CHANGED, *OWN} == {*ablation.PASSES}


@pytest.mark.parametrize("change", [*CHANGED, *OWN])
def test_without_a_pass_jax_sees_another_program(ablation, change, record_property):
    record_property("mutant", "passes left out, by what JAX sees")
    if change in OWN:
        made, shape = OWN[change]
        subject = ablation.Subject(change, made, (jnp.ones(shape),), {})
    else:
        name = CHANGED[change]
        stem = name.rpartition(": ")[0]
        subject = next(s for s in ablation.subjects(stem) if s.name == name)
    candidates = ablation.Candidates.of(subject.made, subject.arguments, subject.named)
    # Twice, as JAX names some functions by how often it has seen them.
    ours = {ablation.traced(candidates, None)[0] for _ in range(2)}
    assert ablation.traced(candidates, change)[0] not in ours
