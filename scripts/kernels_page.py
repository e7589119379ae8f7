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


PAGE = """# How a function becomes a kernel

One function, followed through every stage; all that is indented is printed by the code (`scripts/kernels_page.py`),
and a test sees that it still is. The stages are the packages of `jupyter_hvd/tensor`, in their order;
[architecture.md](architecture.md#the-tensor-language) says why they are apart.

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

## 2. `ssa`: whole arrays

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
"""


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
    instance, _, sizes = gradient.specialised(x)
    made = kernel(instance, sizes)
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
        reference=f"`{gradient.interpret(x).tolist()}`",
    )


def _indented(text: object) -> str:
    return "\n".join(f"    {line}".rstrip() for line in str(text).splitlines())


if __name__ == "__main__":
    print(page(), end="")
