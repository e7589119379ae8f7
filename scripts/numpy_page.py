"""Makes docs/numpy.md: every NumPy name that the tensor language has, with the comprehension that it
stands for and what that costs.

    python scripts/numpy_page.py > docs/numpy.md
"""

from __future__ import annotations

import functools
import inspect
import itertools
import linecache
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jupyter_hvd.tensor import TensorFunction, tensor
from jupyter_hvd.tensor.cost.formula import cost_formula
from jupyter_hvd.tensor.derivative.elementary import REALS, TABLE
from jupyter_hvd.tensor.frontend import forms  # noqa: F401 — it enters the definitions
from jupyter_hvd.tensor.prelude.definitions import DEFINITIONS, Definition

TYPES = {
    "x": '"n"', "y": '"n"', "c": '"k"', "A": '"n m"', "B": '"m n"', "S": '"n n"', "T": '"b n m"',
    "U": '"b m n"', "s": "float", "t": "float",
}  # fmt: skip
LONG = 700  # of a longer program the page shows the beginning
SIZES = {"n": 4, "m": 3, "k": 2, "b": 2}

#: Links to these headings may have their former names.
FORMER_ANCHORS = {
    "elementwise operations": "entry-by-entry",
    "array creation": "arrays-made",
    "slicing and indexing": "parts",
    "reductions and cumulative operations": "reductions-and-prefixes",
    "sorting": "in-order",
    "data-dependent indices": "places-that-data-decide",
    "functions of jax.nn and jax.lax": "of-jaxnn-and-jaxlax",
    "higher-order functions": "functions-of-functions",
}

# A call of each name. Where only a number of entries will do, the page shows it for four.
CALLS = {
    "elementwise operations": (
        "x + y", "x - 2*y", "x / y", "-x", "x**2", "x**3.5", "x * s", "A * x[:, None]",
        *(f"np.{name}(x)" for name in (
            "sin", "cos", "tan", "exp", "sinh", "cosh", "tanh", "sqrt", "log", "log2", "log10", "log1p",
            "expm1", "abs", "sign", "floor", "square", "negative", "reciprocal", "arctan", "radians", "ceil", "trunc",
            "rint", "arcsinh", "cbrt", "sinc", "exp2",
        )),
        "np.arccosh(x + 1)", "np.arctanh(x/3)", "np.round(x, 1)", "x % y", "3*x // y", "np.mod(-x, y)", "np.fmod(-x, y)",
        "np.heaviside(x - 1, 0.5)",
        "np.arcsin(x/3)", "np.arccos(x/3)", "np.arctan2(x, y)", "np.hypot(x, y)",
        "np.add(x, y)", "np.subtract(x, y)", "np.multiply(x, y)", "np.divide(x, y)", "np.power(x, 3)",
        "np.maximum(x, y)", "np.minimum(x, 1.2)", "np.clip(x, 0.9, 1.3)", "np.logaddexp(x, y)", "np.logaddexp2(x, y)",
        "np.copysign(x, y)", "np.nan_to_num(x)",
    ),
    "conditions": (
        "x * (x > 1)", "x * (x >= y)", "x * ((x > 0.9) & (x < 1.2))", "x * ~(x > 1)",
        "x * np.logical_or(x < 0.8, x > 1.2)", "np.where(x > 1, x, y)", "np.where(x > 1, x, 0)",
        "np.select([x > 1.1, x > 0.8], [x**2, y], x*y)",
        "np.where(np.eye(len(x)) == 1, S, 0)", "np.count_nonzero(x > 1) * x", "x * np.less(x, y)",
        "x * np.isnan(x)", "x * np.isinf(x)", "x * np.isfinite(x)",
        "x * (x == y)", "x * (x != y)", "x[0] if x[1] > 1 else x[2]", "x[x > 1].sum()", "x[x > 1].mean()",
        "np.log(x[y > 1]) @ y[y > 1]", "A[A[:, 0] > 1].sum(axis=0)",
    ),
    "sums": (
        "np.sum(x)", "x.sum()", "np.sum(A, axis=0, where=A > 1, initial=s)", "np.mean(A, where=A > 0.8)", "np.maximum.reduce(A)", "np.sum(A, axis=0)", "A.sum(axis=1, keepdims=True)", "A.sum()",
        "np.mean(x)", "A.mean(axis=0)", "np.average(x, weights=y)", "np.nansum(x)", "np.nanprod(x)", "np.nanmean(x)", "np.nanmax(x)", "np.nanstd(x)", "np.var(x)", "np.std(x)", "A.std(axis=0)",
        "np.trapezoid(x, dx=0.1)", "np.trapezoid(A, x, axis=0)", "np.polyval(y[:3], s)", "np.polyfit(x, y, 1)",
        "np.linalg.norm(x)", "np.linalg.norm(A)", "np.linalg.norm(A, axis=1)", "np.linalg.norm(x, 1)",
        "np.linalg.norm(x, 3)", "np.trace(S)", "np.cov(A)", "np.corrcoef(x, y)[0, 1]", "np.histogram(x, bins=3, range=(0.5, 1.5), weights=y)[0]",
    ),
    "products": (
        "A @ B", "A @ B[:, 0]", "x @ S", "x @ y", "T @ U", "np.matmul(A, B)", "np.dot(x, y)", "S.dot(x)",
        "np.vdot(x, y)", "np.inner(x, y)", "np.outer(x, y)", "np.subtract.outer(x, c)", "np.hypot.outer(x, c)", "np.tensordot(A, B, 1)",
        "np.tensordot(T, A, axes=([1, 2], [0, 1]))", "np.einsum('ij,jk->ik', A, B)",
        "np.einsum('ii', S)", "np.einsum('...nm,m->...n', T, y[:3])", "np.einsum('bij,ij->b', T, A)", "np.convolve(x, c)",
        "np.convolve(x, c, mode='valid')", "np.convolve(x, c, 'same')", "np.correlate(x, c)",
        "np.kron(x, c)",
    ),
    "matrices": (
        "np.diag(x)", "np.diag(S)", "np.diag(x, 1)", "np.diagflat(x)", "np.diagonal(S)", "np.tril(S)", "np.triu(S, 1)",
        "np.eye(len(x)) * s", "np.identity(len(x)) * s", "np.tri(len(x)) * s",
        "np.diag(x)[:, 0] @ np.diag(x)[0, :]",
    ),
    "array creation": (
        "np.zeros(len(x)) + s", "np.ones((len(x), 2)) * s", "np.full(len(x), s)", "np.zeros_like(x) + s",
        "np.ones_like(A) * s", "np.full_like(x, s)", "np.arange(len(x)) * x", "np.linspace(0, 1, len(x)) * x",
    ),
    "shapes": (
        "A.T", "np.transpose(T, (2, 0, 1))", "np.swapaxes(T, 0, 1)", "np.moveaxis(T, 0, 2)",
        "A.reshape(-1)", "A.reshape(2, 6)", "x[:, None]", "A.ravel()", "np.expand_dims(x, 0)", "np.expand_dims(A, (0, 2))",
        "np.squeeze(x[None, :])", "np.rot90(A)", "A.reshape(-1, order='F')", "np.dstack([x, y])", "np.broadcast_to(x, (3, len(x)))", "np.flip(x)", "np.roll(x, 1)",
        "np.roll(A, -1, axis=0)", "np.roll(A, (1, -2), axis=(0, 1))", "np.roll(A, 5)",
        "np.pad(x, 1)", "np.pad(A, ((1, 0), (0, 2)))", "np.pad(x, 1, mode='edge')",
        "np.pad(x, 1, mode='wrap')", "np.pad(x, 1, mode='reflect')", "np.pad(x, (1, 2), mode='symmetric')",
        "np.stack([x, y])",
        "np.stack([x, y], axis=1)", "np.concatenate([x, y])", "np.hstack([x, y])", "np.vstack([x, y])",
        "np.column_stack([x, y])", "np.repeat(x, 2)", "np.tile(x, 3)", "np.diff(x)", "np.diff(x, 2)", "np.diff(x, prepend=0, append=s)",
        "np.gradient(x)", "np.gradient(A, 0.5, axis=0)", "np.gradient(x, np.cumsum(y))",
        "np.copy(x)", "np.atleast_2d(x)", "np.delete(x, 1)", "np.insert(x, 1, s)", "np.vander(x, 3)", "np.block([[S, A]])", "np.r_[x, y]", "np.c_[x, y]",
    ),
    "slicing and indexing": (
        "x[1:]", "x[:-1]", "x[::-1]", "x[1:3]", "x[::2]", "A[0]", "A[:, 1]", "A[1:, :-1]", "T[..., 0]", "A[-1]",
        "A[[0, 2]]", "x[np.arange(3)]",
    ),
    "reductions and cumulative operations": (
        "np.max(x)", "x.min()", "A.max(axis=0)", "np.max(A, axis=0, initial=s)", "np.prod(x)", "A.prod(axis=1)", "np.cumsum(x)",
        "np.cumsum(A, axis=0)", "np.cumprod(x)", "np.maximum.accumulate(x)", "jax.nn.logsumexp(x)", "jax.nn.softmax(x)",
        "jax.nn.log_softmax(A, axis=0)", "max(x)", "np.ptp(x)", "np.linalg.norm(x, np.inf)", "np.linalg.norm(A, 1)", "np.any(x > 1.3) * x", "np.all(A > 0.7, axis=0) * y[:3]",
    ),
    "sorting": (
        "np.sort(x)", "np.partition(x, 2)[2]", "np.sort(A, axis=0)", "np.median(x)", "np.quantile(x, 0.4)", "np.percentile(A, 25, axis=0)",
    ),
    "data-dependent indices": (
        "np.argmax(x)", "x[np.argmin(y)]", "A[np.arange(len(A)), np.argmax(A, axis=1)]", "x[np.argsort(y)]",
        "np.take_along_axis(A, np.argsort(A, axis=1), axis=1)", "np.searchsorted(np.sort(x), y)",
        "np.digitize(x, np.array([0.8, 1.1]))", "np.interp(y, np.cumsum(x), x)", "jax.lax.top_k(x, 2)[0]",
        "np.unravel_index(np.argmax(A), A.shape)[1]", "x[np.clip((3*y).astype(int), 0, len(x) - 1)]",
        "np.bincount(np.argmax(A, axis=1), weights=x, minlength=3)", "x[x > 1].max()",
    ),
    "linear systems": (
        "np.linalg.solve(S, x)", "np.linalg.inv(S)", "np.linalg.det(S)", "np.linalg.slogdet(S)[1]",
        "np.linalg.lstsq(A, x)[0]", "np.linalg.qr(A)[0]", "np.linalg.qr(A)[1]", "np.linalg.cholesky(S @ S.T + np.eye(len(x)))",
        "np.linalg.eigh(S + S.T)[0]", "np.linalg.svd(S)[1]", "np.linalg.norm(S, 'nuc')", "jax.scipy.linalg.expm(S)",
        "jax.scipy.linalg.solve_triangular(S, x, lower=True)",
        "jax.scipy.linalg.cho_solve((np.tril(S), True), x)", "np.linalg.matrix_power(S, 3)",
        "np.linalg.multi_dot([A, B, x])",
    ),
    "functions of jax.nn and jax.lax": (
        "jax.nn.relu(x - 1)", "jax.nn.sigmoid(x)", "jax.nn.softplus(x)", "jax.nn.silu(x)",
        "jax.nn.leaky_relu(x - 1)", "jax.lax.stop_gradient(x) * x",
        "jax.numpy.asarray(x).at[0].set(s)", "jax.numpy.asarray(x).at[1:].add(y[1:])",
        "jax.nn.gelu(x)", "jax.nn.gelu(x, approximate=False)", "jax.nn.elu(x - 1)", "jax.nn.selu(x - 1)",
        "jax.nn.log_sigmoid(x)", "jax.nn.relu6(x)", "jax.nn.hard_tanh(x)", "jax.nn.soft_sign(x)", "jax.lax.rsqrt(x)",
        "jax.scipy.special.ndtr(x)", "jax.scipy.special.logit(x/2)",
        "jax.scipy.special.erfc(x)", "jax.scipy.special.xlogy(x, y)", "jax.scipy.special.xlog1py(x, y)", "jax.scipy.special.entr(x)", "jax.scipy.stats.norm.logpdf(x)",
        "jax.scipy.stats.norm.pdf(x, 1, 0.5)", "jax.scipy.stats.norm.cdf(x)", "jax.scipy.special.gammaln(x)",
        "jax.scipy.special.digamma(x)", "jax.scipy.special.polygamma(1, x)", "jax.scipy.special.betaln(x, y)",
    ),
    "higher-order functions": (
        "jax.vmap(lambda row: row @ row)(A)", "jax.vmap(lambda a, b: a * b, in_axes=(None, 0))(s, x)",
        "jax.lax.scan(lambda c, v: (0.5 * c + v, c), 0.0, x)[1]", "jax.lax.fori_loop(0, 3, lambda i, c: 0.5 * c + i, s)",
        "jax.lax.map(lambda row: row.sum(), A)", "jax.lax.cond(x[0] > 1, lambda v: 2 * v, lambda v: 3 * v, x)",
        "jax.numpy.vectorize(lambda a, b: a * b + 1)(x, s)", "functools.reduce(lambda a, b: a * b, x)",
        "np.array(list(itertools.accumulate(x)))", "jax.tree.map(np.sum, (x, A))[1]", "sum(jax.tree.leaves((s, x.sum())))",
    ),
}  # fmt: skip


def arguments(names: list[str]) -> list[Any]:
    """Arguments for the names, drawn anew from one seed."""
    rng = np.random.default_rng(7)
    made = {}
    for name, type_ in TYPES.items():
        shape = () if type_ == "float" else tuple(SIZES[d] for d in type_.strip('"').split())
        made[name] = rng.uniform(0.6, 1.4, shape) if shape else float(rng.uniform(0.6, 1.4))
    return [made[name] for name in names]


def parameters(call: str) -> list[str]:
    """The parameters that a call reads."""
    code = compile(call, "<call>", "eval")
    return [name for name in TYPES if name in code.co_names]


def function(call: str, *, typed: bool = False, result: str = "{}") -> Callable[..., Any]:
    """`def f(…): return call`, with types where they are wanted."""
    import jax

    names = parameters(call)
    hints = {x: "float" if TYPES[x] == "float" else f"'Float[Array, {TYPES[x]}]'" for x in names}
    spelt = ", ".join(f"{x}: {hints[x]}" if typed else x for x in names)
    source = f"def f({spelt}):\n    return {result.format(call)}\n"
    name = f"<{call} {typed} {result}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace: dict[str, Any] = {
        "np": np,
        "jax": jax,
        "functools": functools,
        "itertools": itertools,
    }
    exec(compile(source, name, "exec"), namespace)
    made: Callable[..., Any] = namespace["f"]
    return made


def described(call: str) -> tuple[str, str]:
    """The body of the program that a call is, and its cost."""
    from jupyter_hvd.tensor import TensorError

    f: TensorFunction = tensor(function(call, typed=True))
    try:
        program = f.program
    except TensorError:
        f = tensor(function(call))
        f.cost(*arguments(parameters(call)))
        program = f.program
    return str(program).split("\n", 1)[1], str(cost_formula(program))


def elementary_functions() -> Iterator[str]:
    """The table of elementary functions, those that programs call."""
    yield ELEMENTARY
    for row in TABLE.values():
        if row.numpy:
            names = ", ".join(f"`{name}`" for name in row.numpy)
            slopes = ", ".join(f"`{slope}`" for slope in row.slopes)
            kinks = "; ".join(
                f"{_point(slopes)} at {_point(at)}" for at, slopes in row.kinks.items()
            )
            yield f"| `{row.name}` | {names} | {slopes} | {' × '.join(map(_interval, row.domain))} | {kinks} |"


def _point(values: tuple[float, ...]) -> str:
    shown = ", ".join(_number(x) for x in values)
    return shown if len(values) == 1 else f"({shown})"


def _interval(interval: tuple[float, float]) -> str:
    return "ℝ" if interval == REALS else "({}, {})".format(*map(_number, interval))


def _number(x: float) -> str:
    known = {math.inf: "∞", -math.inf: "-∞", math.pi / 2: "π/2", -math.pi / 2: "-π/2"}
    return known.get(x, f"{x:g}")


def page() -> Iterator[str]:
    yield HEAD
    yield from elementary_functions()
    printed = set[Callable[..., Any]]()
    for title, calls in CALLS.items():
        if title in FORMER_ANCHORS:
            yield f'\n<a id="{FORMER_ANCHORS[title]}"></a>'
        yield f"\n## {title.capitalize()}\n\n| call | is | operations |\n|---|---|---|"
        for call in calls:
            body, cost = described(call)
            shown = body.replace("\n", " ").replace("|", "\\|")
            shown = shown if len(shown) <= LONG else f"{shown[:LONG]} …"
            yield f"| `{call.replace('|', chr(92) + '|')}` | `{shown}` | {cost} |"
        yield from definitions(calls, printed)
    yield "\n## Other definitions"
    yield from definitions(None, printed)


def definitions(calls: Sequence[str] | None, printed: set[Callable[..., Any]]) -> Iterator[str]:
    """Lines with the sources of the prelude's definitions that calls name; all for None. Those that are `printed` are left out."""
    sources = []
    for definition in DEFINITIONS:
        named = calls is None or any(_calls(definition, call) for call in calls)
        if named and definition.body not in printed:
            printed.add(definition.body)
            sources.append(inspect.getsource(definition.body).rstrip())
    if sources:
        yield "\nAs the prelude defines them:\n\n```python"
        yield "\n\n\n".join(sources)
        yield "```"


def _calls(definition: Definition, call: str) -> bool:
    """Whether a call names a definition: by its path, or as a method."""
    path = ".".join(definition.path).replace("numpy.", "np.", 1)
    by_method = definition.method and f".{definition.name}(" in call and ("jax." not in call)
    return f"{path}(" in call or by_method


ELEMENTARY = """
## Elementary functions

One table, `derivative/elementary.py`, has all that is known of a scalar function; `tests/tensor/test_elementary.py` checks each row against `mpmath` to the third derivative, at random points, at zeros, ties,
integers and infinities, and against JAX.

- **To every order.** The derivative of a smooth function is made of smooth functions, so that Hessians and further derivatives hold everywhere: that of `softplus` is `sigmoid`, at 0 too. The derivatives of `x**k` by x
  are `k·x**(k-1)`, `k·(k-1)·x**(k-2)`, … (`pow1`, `pow2`), which are 0 where k, or k - 1, is 0: no logarithm and no 0·∞ at x = 0, for integers k that are constants, indices, parameters or data. `|x|·|x|` and even constant powers of `|x|` are read as those of x.
- **At kinks**, where there is no derivative, it is the middle of the one-sided ones: 0 of `|x|` at 0, 1/2 for each of two equal operands of `maximum` and `minimum` (so `relu6` and `clip` have 1/2 at their ends), and 0 for steps. That is JAX's
  but for `abs` at 0 (JAX: 1; PyTorch and TensorFlow: 0) and `hypot` at (0, 0) (JAX: 1/2 each). `relu`, `leaky_relu` and `elu` are JAX's, too: 0, 1 and alpha at 0. Second derivatives at kinks of the first (`maximum(x, 0)**2` at 0, a power of `|x|` whose
  exponent is a parameter) follow from the same rules and are not the middle in general. `mod` and `fmod` have derivative 1 by x where they jump.
- **At the ends of a domain** a derivative is what its formula gives: ∞ of `sqrt` and `log` at 0. `xlogy(0, y)` has `log(y)` by x and 0 by y, at y = 0 too.

| function | in NumPy, `math`, SciPy, JAX | derivatives by x, y | smooth in | convention at kinks |
|---|---|---|---|---|"""


HEAD = """# NumPy in the tensor language

`scripts/numpy_page.py` makes this page (`make docs`), and `tests/tensor/test_numpy.py` runs every line of it, the value and the gradient.

Each function is defined by the program next to it. Functions of the prelude (`tensor/prelude`) are defined by NumPy's other functions; their source is below each table. So structural zeros are preserved, and its cost is the cost
of that program. `numpy`, `jax.numpy`, methods and operators are equivalent: `np.sum(x)`, `jnp.sum(x)`, `x.sum()`. Here x and y have n entries, c has k,
A is n×m, B m×n, S n×n, T b×n×m, U b×m×n, s a number.

- **Broadcasting.** Sizes with different names that are broadcast together are compared when the function is called: if they differ and neither is 1, an
  error says which sizes do not match. A value that costs something and is read several times gets a name, so it is computed once.
- **Sizes that must be numbers.** `reshape`, `ravel` of a matrix, `kron`, `linspace`, slices with a step, `prod`, `cumprod`, `argmax` and quantiles are made for the sizes of a call, and the
  function is traced again at others. The page shows them at n = 4.
- **Data in conditions.** `x > t` is 1 or 0, with derivative zero; `where` takes an entry from one side or the other, both of which are computed. If the condition
  depends only on indices, it becomes a bracket, which costs nothing.
- **Largest entries and products.** `max` and `min` are array-level functions, `largest(x)` and `smallest(x)` (`derivative/extremes`): n - 1 operations, and one reduction in a kernel. `prod` multiplies one half of the entries
  by the other, ⌈log2 n⌉ times: n - 1 operations. Its derivative divides by nothing, so zeros do no harm. Entries that are equally large share the derivative of `max` equally, as in JAX. In programs, `tangent(x, w)` is zero and its derivative by x is w;
  `stopped(x)` is x without a derivative. Neither is computed, or counted here or by `f.cost`. The derivative of a maximum of k > 2 entries costs up to 4·k + 3 operations beside the maximum's
  k - 1. The bound of 4 holds with that counted in the function, as `f.certify` and the panel count it.
  `logsumexp` and `softmax` subtract the largest entry first, and their derivatives treat it as a constant.
- **`cumsum`** is a loop: n - 1 additions, and running sums in a kernel, where no iteration waits for another.
- **Remainders and rounding.** `x // y`, `floor` and `round` have derivative zero, `x % y` has 1 by x and `-(x // y)` by y, as in JAX.
- **Boolean indexing.** The number of entries of `x[x > 0]` depends on data. Elementwise functions of it are computed for all entries, with 1 as the argument where nothing is chosen. A sum, mean, variance, norm, product,
  `max` or `min` (of none ∓∞) uses the chosen entries, and `y[p] = f(x[p])` puts them back. Returned, looped over or indexed, it is refused.
- **Sorting.** `argsort` is an array-level function, `order(x)` (`derivative/sorting`): the indices that sort x, stable, counted as n·(n - 1)/2 comparisons; a kernel sorts. `sort` takes the entries
  at these indices, 3·n² - n operations as they are written (in a kernel one gather), `median` and `quantile` one or two. `searchsorted` is array-level, too: the number of entries of a sorted list that are less.
  The derivative belongs to the entry that is taken. NaN comes last, as in NumPy, and makes a median, quantile, maximum or minimum NaN; `argmax` and `argmin` are the index of the first NaN.
- **Linear systems and decompositions** are array-level functions that programs call and do not write out (`derivative/linear_algebra`). `solve(A, factors(A), B)` is defined by its equation, and so are `det`, `slogdet`, `inv`,
  `cholesky`, `qr`, `lstsq`, `solve_triangular`, `eigh`, `svd` and `expm`. They take one matrix or, by leading axes, several. A kernel calls LAPACK, also in a loop or beside sparse arrays.
  - *Costs* are those of a textbook's algorithm: 2/3·n³ for `factors`, which value and gradient share, 2·n² for each right-hand side, n³/3 for `cholesky`, 4·m·n² for `qr`, 9·n³ for `eigh`, 14·m·n·k for `svd`, 26·n³ for `expm`.
    A derivative of a decomposition counts twice that, as if the algorithm were differentiated step by step. A kernel takes more operations, all of them in products of matrices.
    With these counts value and gradient obey the bound of [loops](recurrences.md) (`tests/tensor/test_form_theorems.py`).
  - *Derivatives* hold to every order. For a singular matrix `solve` gives NaN or infinities; `det` is right there, and so is its gradient, the signed minors. `cholesky` and `eigh` use `(A + A.T)/2`. Where eigenvalues or singular values
    are equal, vectors have no derivative; what does not depend on their choice, such as a nuclear norm, has one.
- **Data-dependent indices.** `argmax` and `argmin` are the first index of the largest or smallest entry (5·n - 2 operations), `argsort` the indices that sort. They are integers with derivative zero. As an index, `x[p]` is
  `Σ j:n. kept(picks(p, j), x[j])`, 3·n - 1 operations (in a kernel one gather). So the derivative belongs to the chosen entry and not to the choice, as in JAX. They stay indices through `+`, `-`, `%`, `np.clip`, `np.where`,
  lists and loops, as Viterbi's algorithm needs. `y[p] = v`, `at[p].add`, `bincount`, `one_hot` and comparisons with labels accept them. Their range is known from the sizes, so every read is in range before anything runs.
  A value that is only rounded, `np.floor(x).astype(int)`, counts from the end where it is negative, reads the last entry beyond the end, and stores nothing without `np.clip`.
  Such indices come back as whole floats, exact in float32 up to 2²⁴.
- **Repeated indices**: in `y[p] = v` the last value counts, and `y[p] += v` adds once, as in NumPy; `y.at[p].add(v)` and `np.bincount` add all of it. Finding the last one takes as many operations as p has pairs of entries.
- **Not supported.** Functions whose number of results depends on floats (`nonzero` or `unique` of floats), decompositions whose results may be complex (`eig`, `schur`, `sqrtm`), random numbers,
  complex numbers and Fourier transforms. `jax.grad` inside a tensor function is not supported; use `f.grad`. The error names the line and what to write instead. Functions of other modules with the same names, such as `scipy.ndimage.convolve`
  and `jax.lax.max`, are different functions, and are refused.
- **Functions of functions** are the loops and comprehensions that they stand for: `scan`, `fori_loop`, `reduce` and `accumulate` carry values ([loops](recurrences.md)); `vmap` is a comprehension.
- **Index arrays**, which are parameters, may be cut, `labels[1:]`, `labels[:, None]`, compared, `labels == k`, and used in `take_along_axis`, `one_hot(labels, k)`, `segment_sum(x, labels, num_segments=k)`,
  `bincount(labels, weights=x, minlength=k)`, and to store, `y[k] = v`, `A[np.arange(n), labels] = 0`.
- **Constants.** An array that NumPy makes of numbers alone, `np.hanning(5)`, is written out, if it has 64 entries or fewer.
- **Integers and conditions** keep NumPy's types as far as that matters: arrays of integers are not assigned floats, and `+` of two conditions, which is *or*, is refused."""


def main() -> None:
    for line in page():
        print(line)


if __name__ == "__main__":
    main()
