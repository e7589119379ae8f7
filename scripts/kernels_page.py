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

One function, followed through every stage; all that is indented is printed by the code (`scripts/kernels_page.py`),
and a test checks it. The stages are the packages of `jupyter_hvd/tensor`, in their order;
[architecture.md](architecture.md#the-tensor-language) says why they are separate.

{python}

A million differences, squared and added: {operations} operations at n = 1,000,000.

## 1. `frontend`: Python becomes a program

No dunder method can see a comprehension or an assignment, so `rewrite` turns them into calls of a tracer (numbers are
places in the source):

{rewritten}

`trace` calls that once, with a stand-in for x, and the calls build a term. x_0, the size of x, takes the name that
the program gives it:

{program}

`⊞ i:n` makes an array, `[p]·e` is e where p holds and zero elsewhere. Before anything runs, `bounds` shows that
`x[i+1]` stays in range where `i<n-1` (isl).

<a id="2-ssa-whole-arrays"></a>

## 2. `ssa`: array-level statements

`normalize` lifts every `let` out, takes pairs apart and pushes `⊞` outwards; `convert` gives every operation a
variable, with all structure in its predicate (5.25–5.34):

{raw}

`simplify` solves the equations: an index that another determines goes, and its range becomes a condition; equal
statements are one.

{ssa}

Its cost, counted symbolically (`cost/formula`): {formula}.

## 3. `derivative`: the gradient is such a program too

`reverse` goes through the statements from the last to the first. What is still due for each variable is a list of
inner products; (6.39) merges them, (6.48) and (6.49) turn a contraction round:

{adjoint}

After `simplify`, in which nothing scatters: reading shifted by one became reading shifted back by one.

{gradient}

Its cost: {gradient_formula}.

## 4. `lowering`: at the sizes of a call

`specialize` puts the sizes in, n = 6 here, and `liveness` masks what nobody reads:

{restricted}

`iteration` gives every statement the integer points that it visits, `storage` says where its entries are, `strategy`
how a contraction is computed, `tiling` what runs in blocks. The plan (`print(f.plan(*args))`), of which JAX has seen
nothing yet:

{plan}

## 5. `jax`: executed

`execute` runs the plan's steps on arrays while JAX traces; what JAX sees is dense:

{jaxpr}

`jax.jit` compiles that, once for these sizes, and XLA fuses it. `roughness.grad("x")(x)` at {x}: {result}; the
reference evaluator, straight from the semantics: {reference}.

## 6. Joins: two sparse relations in one sum

A relation is data, on the host, when a call is planned. A sum over one is run over tuple by tuple. Of a product of two
sparse matrices, read where a third relation holds,

{join_python}

the cost counts the points where all of `R(i,j)`, `S(j,k)` and `T(i,k)` hold (Fig. 6). Going over the tuples of one
relation and over all that it leaves open visits more: here 1,000 tuples of T and 500 values of j. So these relations are
joined (`lowering/relation_joins`). The rule, for a conjunction of atoms under `Σ` or `⊞` that share indices,

    Σ i,j,k. [R(i,j) ∧ S(j,k) ∧ T(i,k)]·e  ⇝  Σ ρ. e    with i = J[ρ, 0], j = J[ρ, 1], k = J[ρ, 2]

where J has a row for each tuple on which all agree: its indices, in order, and then its positions in the tables of R, S
and T. What is stored by the positions of R is read at the position that J has of it; a result between whose indices
T holds is stored by the positions of T, and terms are added up there; what is stored by tuples that are not run over
is sought in their table. The plan of the gradient by x, with
n = 500 and two tuples a row:

{join_plan}

It visits {join_points} points. Nothing of it has n² entries, and no relation is probed. What a join costs, and when there is one:

- `joined_rows` sorts and merges with NumPy, one relation after the other, those first that leave the fewest tuples. The
  time is that of sorting the tuples and writing what agrees; of a chain of joins, of what agrees on the way.
- A kernel is made for a number of tuples. That of J changes with every change of a relation, and is rounded up to a
  power of two, as that of a sparse boolean array is; rows in excess hold indices outside of every array, and give zeros.
- There is a join where it saves points: neither the tuples expected, if they were spread evenly, nor the tuples found may be more
  than the points that would be visited otherwise. These must be 2¹⁴ or more (2¹¹ where tuples are searched in sets), and the
  tuples at most 2²², because a table takes memory.
  Otherwise, and inside `jax.jit` of relations that are arguments, one relation is run over and the others are probed.
- Atoms are joined whose arguments are `i`, `i+c`, `-i+c` or constants. Entries of index arrays are looked up as before:
  write pairs of them as a set of tuples.
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
