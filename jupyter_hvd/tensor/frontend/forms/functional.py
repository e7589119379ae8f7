"""Functions of functions: `scan`, `fori_loop`, `reduce`, `accumulate`, `vmap` and the like, each the loop or the
comprehension that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .table import build, form


@form("scan")
def scan(
    t: Any,
    f: Any,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> Any:
    """Build JAX's `scan`: `for x in xs: carry, y = f(carry, x); ys.append(y)`."""
    over = t.iteration_of_all(xs) if xs is not None else t.ranged(length)
    over = t.backwards(over) if reverse else over
    made: list[Any] = []

    def run_iteration(x: Any, carry: Any) -> tuple[Any, list[Any]]:
        found = t._structure(t.applied(f, carry, x if xs is not None else None))
        if not isinstance(found, tuple) or len(found) != 2:
            raise t.error(
                "the function of `scan` returns the carried value and an output", "`return h, y`"
            )
        after, y = found
        leaves: list[Any] = []
        made[:] = [t.flattened(y, leaves)]
        return after, leaves

    last, outputs = t.carried_on(over, "carry", init, run_iteration)
    if reverse:
        outputs = [build(t, "flip", y, 0) for y in outputs]
    return last, made[0](iter(outputs)) if made else None


@form("fori_loop")
def fori_loop(t: Any, lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    """Build JAX's `fori_loop`: `for i in range(lower, upper): x = f(i, x)`."""
    over = t.ranged(lower, upper)
    return t.carried_on(over, "x", init_val, lambda i, x: (t.applied(body_fun, i, x), []))[0]


@form("functools.reduce")
def reduce(t: Any, f: Any, xs: Any, *init: Any) -> Any:
    """Build `functools.reduce`: `for x in xs: made = f(made, x)`."""
    start, over = _fold_start(t, xs, init)
    return t.carried_on(over, "made", start, lambda x, made: (t.applied(f, made, x), []))[0]


@form("itertools.accumulate")
def accumulate(t: Any, xs: Any, f: Any = None, initial: Any = None) -> Any:
    """Build `itertools.accumulate`: the start, then `for x in xs: made = f(made, x); all.append(made)`."""
    start, over = _fold_start(t, xs, () if initial is None else (initial,))

    def run_iteration(x: Any, made: Any) -> tuple[Any, list[Any]]:
        made = t._bind("made", t.computed("+", made, x) if f is None else t.applied(f, made, x))
        return made, [made]

    _, outputs = t.carried_on(over, "made", start, run_iteration, [start])
    return outputs[0] if outputs else t.written_out([start])


def _fold_start(t: Any, xs: Any, init: Sequence[Any]) -> tuple[Any, Any]:
    """Return the initial value of a fold, and what it iterates over; without a given value, the first item and the rest."""
    over = t.iteration(xs)
    return (init[0], over) if init else t.first_and_rest(over)


@dataclass(frozen=True)
class Mapped:
    """`vmap(f)`, to be called."""

    f: Any
    in_axes: Any
    out_axes: int

    def __tensor_inline__(self, t: Any, arguments: Sequence[Any], named: Any) -> Any:
        axes = t.listed(self.in_axes)
        axes = list(axes) if isinstance(axes, tuple | list) else [axes] * len(arguments)
        if len(axes) != len(arguments):
            raise t.error(f"`in_axes` has {len(axes)} parts for {len(arguments)} arguments")
        items = [None if k is None else t.along(x, k) for k, x in zip(axes, arguments, strict=True)]
        items += [t.along(x, 0) for x in named.values()]

        def body(rows: Sequence[Any]) -> Any:
            given = [x if row is None else row for x, row in zip(arguments, rows, strict=False)]
            rest = dict(zip(named, rows[len(arguments) :], strict=True))
            return t.applied(self.f, *given, **rest)

        made = t.every(items, body)
        if self.out_axes:
            made = build(t, "moveaxis", made, 0, self.out_axes)
        return made


@form("vmap")
def vmap(t: Any, fun: Any, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """Build JAX's `vmap`: a function that returns `[f(row) for row in x]`."""
    if not isinstance(out_axes, int):
        raise t.error("`out_axes` is one number here", "transpose the results afterwards")
    return Mapped(fun, in_axes, out_axes)


@form("map")
def map_(t: Any, f: Any, xs: Any) -> Any:
    """Build JAX's `map`: `[f(x) for x in xs]`."""
    return t.every([t.iteration_of_all(xs)], lambda rows: t.applied(f, rows[0]))


@form("tree_map")
def tree_map(t: Any, f: Any, tree: Any, *rest: Any) -> Any:
    """Build JAX's `tree_map`: `f` of every array of a tree, and of the corresponding ones of others."""
    each = [list[Any]() for _ in (tree, *rest)]
    rebuilt, *_ = (t.flattened(x, leaves) for x, leaves in zip((tree, *rest), each, strict=True))
    if len({len(leaves) for leaves in each}) > 1:
        raise t.error("`tree_map` of trees that have not the same parts")
    return rebuilt(iter([t.applied(f, *leaves) for leaves in zip(*each, strict=True)]))


@form("tree_leaves")
def tree_leaves(t: Any, tree: Any) -> Any:
    """Build JAX's `tree_leaves`: the arrays of a tree in JAX's order, dictionaries by their sorted keys."""
    return t.leaves_of(tree)


@form("tree_reduce")
def tree_reduce(t: Any, f: Any, tree: Any, *init: Any) -> Any:
    """Build JAX's `tree_reduce`: `reduce(f, leaves)`."""
    return reduce(t, f, t.leaves_of(tree), *init)


@form("vectorize")
def vectorize(t: Any, pyfunc: Any) -> Any:
    """Build NumPy's `vectorize`: a function that applies `f` to every entry, with broadcasting."""
    return Spread(lambda t, xs: t.spread(xs, lambda *at: t.whole(t.applied(pyfunc, *at))))


@dataclass(frozen=True)
class Spread:
    """`np.vectorize(f)`, to be called."""

    made: Callable[..., Any]

    def __tensor_inline__(self, t: Any, arguments: Sequence[Any], _named: Any) -> Any:
        return self.made(t, arguments)


@form("apply_along_axis")
def apply_along_axis(t: Any, func1d: Any, axis: int, arr: Any, *args: Any) -> Any:
    """Build NumPy's `apply_along_axis`, of matrices only: `[f(A[:, k]) for k in range(m)]`."""
    if len(t.dims(t.whole(arr))) != 2:
        raise t.error("`apply_along_axis` of a matrix alone", "write a comprehension")
    over = t.along(arr, 1 - axis % 2)
    made = t.every([over], lambda rows: t.applied(func1d, rows[0], *args))
    return made if axis % 2 or len(t.dims(made)) == 1 else build(t, "transpose", made)


@form("cond")
def cond(t: Any, pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
    """Build JAX's `cond`: `f(x) if p else g(x)`."""
    ways = (lambda: t.applied(true_fun, *operands)), (lambda: t.applied(false_fun, *operands))
    return t.choose(t.here, pred, *ways)


@form("jit", "checkpoint", "remat", "ensure_compile_time_eval")
def jit(t: Any, f: Any, *_: Any, **__: Any) -> Any:
    """Build JAX's `jit`: f itself, since it is compiled together with the function around it."""
    return f


@form("while_loop")
def while_loop(t: Any, *_: Any) -> Any:
    """Refuse JAX's `while_loop`, since data decide how often it runs."""
    raise t.error(
        "a `while_loop` has no size that is known beforehand",
        "`for t in range(n)`, or `fori_loop`, and carry on what is done: `h = where(done, h, f(h))`",
    )


@form("grad", "value_and_grad", "jacfwd", "jacrev", "hessian", "jvp", "vjp", "jacobian")
def grad(t: Any, *_: Any, **__: Any) -> Any:
    """Refuse JAX's `grad` inside a tensor function."""
    raise t.error(
        "a derivative is taken of a tensor function, outside of this one",
        'decorate the inner one: `@tensor def f(x)`, `df = f.grad("x")`, and call `df` here',
    )
