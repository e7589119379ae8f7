"""docs/kernels.md: one function followed through every stage, printed by the stages themselves.

python scripts/kernels_page.py > docs/kernels.md
"""

from __future__ import annotations

import inspect

import jax
import numpy as np

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.derivative.reverse import adjoint
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.language.types import REAL, Array
from jupyter_hvd.tensor.ssa.convert import to_ssa
from jupyter_hvd.tensor.ssa.normalize import normalize


@tensor
def roughness(x):
    n = len(x)
    d = [x[i + 1] - x[i] if i < n - 1 else 0 for i in range(n)]
    return sum(d[i] * d[i] for i in range(n))


@tensor
def within(R, S, T, x):
    n = len(x)
    C = [
        [
            sum(x[i] * x[j] for j in range(n) if (i, j) in R and (j, k) in S) if (i, k) in T else 0
            for k in range(n)
        ]
        for i in range(n)
    ]
    return sum(C[i][k] * C[i][k] for i in range(n) for k in range(n) if (i, k) in T)


PAGE = """# How a function becomes a kernel

This page follows one function through every stage. `scripts/kernels_page.py` writes this page; a test compares it with the
output of the code. Each stage is a package of `jupyter_hvd/tensor`; [architecture.md](architecture.md#the-tensor-language)
says how they depend on one another. Numbers in parentheses are equations of [the paper](tensor-language.md).

{python}

It adds up the squares of n - 1 differences. As written, this takes {operations} operations at n = 1,000,000:
`x[i + 1] - x[i]` counts as a multiplication by -1 and an addition, and the last square, of zero, counts, too.

## 1. `frontend`: Python becomes a program

A tracer sees operators, through methods such as `__add__`, but neither comprehensions nor assignments. So `rewrite` turns these
into
calls to the tracer (the numbers are positions in the source):

{rewritten}

`trace` calls this function once, with a tracer in place of x, and these calls build an expression. The size of x is called n, as
in
the program:

{program}

`⊞ i:n` makes an array, and `[p]·e` is e where p holds and zero elsewhere. Before anything runs,
`bounds` proves with [isl](https://libisl.sourceforge.io), a library for sets of integer points, that
`x[i+1]` is in range if `i<n-1`.

<a id="2-ssa-whole-arrays"></a>

## 2. `ssa`: array-level statements

`normalize` lifts every `let` to the top, splits pairs and moves `⊞` outwards. `convert` gives the result of every operation a
variable, and puts all structure into its predicate (5.25–5.34):

{raw}

`simplify` solves the equations in predicates. If an index equals an expression of others, it is replaced, and its range
becomes a condition. Equal statements are merged.

{ssa}

The cost of the function as written, before `simplify`, counted symbolically (`cost/formula`): {formula}.

<a id="3-derivative-the-gradient-is-such-a-program-too"></a>

## 3. `derivative`: the gradient is a program, too

`reverse` goes through the statements from the last to the first, and collects each variable's adjoint as a list of
inner products. Rule (6.39) merges these, and (6.48) and (6.49) transpose a contraction:

{adjoint}

The function reads `x[g0+1]`, so its adjoint `T10` adds entries at `g0=s0+1`. After `simplify` this is a read at `g0-1`, and
nothing is scattered:

{gradient}

The cost of this gradient: {gradient_formula}.

## 4. `lowering`: at the sizes of a call

`specialize` inserts the sizes, here n = 6, and `liveness` masks entries that nothing reads:

{restricted}

`iteration` chooses the integer points that a statement visits, `storage` the layout of its entries, `strategy` the method
for a contraction, and `tiling` the steps that run in blocks. The result is the plan, which does not involve JAX yet
(`print(f.plan(*args))`):

{plan}

<a id="5-jax-executed"></a>

## 5. `jax`: the plan runs

`execute` runs the steps of the plan under JAX's tracer, so JAX sees only operations on dense arrays:

{jaxpr}

`jax.jit` compiles this once for these sizes, and XLA fuses the operations. `roughness.grad("x")(x)` at {x}: {result}; the
reference evaluator, which implements the paper's semantics literally, gives {reference}.

## 6. Joins: two sparse relations in one sum

A relation is data that the host knows when it plans a call. A sum over a relation iterates over its tuples. This function
multiplies two sparse matrices, but only where a third relation holds:

{join_python}

Its cost (Fig. 6 of the paper) counts only the index tuples for which `R(i,j)`, `S(j,k)` and `T(i,k)` all hold.
A loop over the tuples of one
relation, and over every value of the remaining index, visits more: here 1,000 tuples of T times 500 values of j. So the
planner joins the relations (`lowering/relation_joins`). The rule for a conjunction of relations that share indices, under
`Σ` or `⊞`, is

    Σ i,j,k. [R(i,j) ∧ S(j,k) ∧ T(i,k)]·e  ⇝  Σ ρ. e    with i = J[ρ, 0], j = J[ρ, 1], k = J[ρ, 2]

The join J has a row for each `(i, j, k)` at which all relations hold: first the indices, then the positions of the three
tuples in the tables of R, S and T. An array with one entry per tuple of R is read at R's position in this row. A result that is
only needed where T holds has one entry per tuple of T, and terms are added at T's position. This is the plan of the gradient
with respect to x, with n = 500 and two tuples in each row:

{join_plan}

It visits {join_points} points. No array in it has n² entries, and no step looks up tuples in a set.

- **Cost.** `join_rows` sorts and merges tables with NumPy, one relation after the other, beginning with those that leave the
  fewest tuples. The time is that of sorting the tuples and writing each intermediate result.
- **Padding.** A kernel is compiled for a fixed number of rows, but the number of rows of J changes with the relations. It is
  therefore rounded up to a power of two. The additional rows hold indices outside every array, and contribute zeros.
- **When.** Relations are joined if this saves points, both by the estimate before the join and by the count after it. Without the
  join, the kernel would have to visit at least 2¹⁴ points (2¹¹ if it looks up tuples in sets). J has at most 2²² rows, because it
  takes memory. Otherwise the kernel iterates over one relation and looks up its tuples in the others. It also does so if the
  relations are arguments of a `jax.jit`.
- **Limits.** The indices in a relation must be `i`, `i+c`, `-i+c` or constants. Index arrays are not joined: write pairs of
  indices as a set of tuples instead.
"""


def steps(*lengths: int, n: int = 500) -> set[tuple[int, int]]:
    """From each of n places on a ring, so far."""
    return {(i, (i + k) % n) for i in range(n) for k in lengths}


def page() -> str:
    """The text of docs/kernels.md."""
    x = np.array([0.0, 1.0, 4.0, 9.0, 16.0, 25.0])
    roughness(x)
    gradient = roughness.grad("x")
    result = gradient(x)  # float64, as x is
    function = roughness.program
    size = dict(function.parameter_type)["x"]
    assert isinstance(size, Array)
    assert size.element == REAL
    instance, _, sizes, _ = gradient.specialised(x)
    made = kernel(instance, sizes)
    joined = within.grad("x").plan(*(steps(*d) for d in ((1, 2), (3, 5), (5, 7))), np.ones(500))
    rewritten = roughness._rewritten  # type: ignore[attr-defined]
    return PAGE.format(
        python=_indented(inspect.getsource(roughness.python)),
        operations=f"{roughness.cost_formula().evaluate(n=1_000_000):,}",
        rewritten=_indented(rewritten.text.strip()),
        program=_indented(function),
        raw=_indented(to_ssa(normalize(function.body))),
        ssa=_indented(roughness.ssa),
        formula=f"`{roughness.cost_formula()}`",
        adjoint=_indented(adjoint(roughness.ssa, [("x", size)], None)),
        gradient=_indented(gradient.ssa),
        gradient_formula=f"`{gradient.cost_formula()}`",
        restricted=_indented(made.restricted),
        plan=_indented(gradient.plan(x)),
        jaxpr=_indented(jax.make_jaxpr(gradient.jax)(np.float32(x))),
        x=f"`{x.tolist()}`",
        result=f"`{np.asarray(result).tolist()}`",
        join_python=_indented(inspect.getsource(within.python)),
        join_plan=_indented(joined),
        join_points=f"{joined.points:,}",
        reference=f"`{gradient.interpret(x).tolist()}`",
    )


def _indented(text: object) -> str:
    return "\n".join(f"    {line}".rstrip() for line in str(text).splitlines())


if __name__ == "__main__":
    print(page(), end="")
