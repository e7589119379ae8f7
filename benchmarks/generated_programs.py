"""Programs that a seeded generator draws, by class: each as comprehensions of the language, and as one who knows JAX would
write it.

    python benchmarks/generated_programs.py [--seed 0] [--each 4]

prints them. Nobody has chosen among them: `tensor_table` takes the first of each class for one seed.
"""

from __future__ import annotations

import argparse
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SEED, EACH = 16, 5
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Drawn:
    """The text of `program` in the language and in JAX, and its arguments at a scale: about as many points times so
    many.
    """

    name: str
    kind: str
    language: str
    direct: str
    at: Callable[[int], Arguments]

    def functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return _defined(self.name, self.language), _defined(f"{self.name} in JAX", self.direct)


def _defined(name: str, text: str) -> Callable[..., Any]:
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"np": np, "jnp": jnp, "jax": jax}
    exec(compile(text, file, "exec"), names)
    return names["program"]  # type: ignore[no-any-return]


def drawn(seed: int = SEED, each: int = EACH) -> Iterator[Drawn]:
    for kind, draw in KINDS.items():
        for k in range(each):
            name = f"{kind} {seed}.{k}"
            language, direct, at = draw(Random(name))
            yield Drawn(name, kind, _text(language), _text(direct), at)


def _text(lines: str) -> str:
    return textwrap.dedent(lines).strip() + "\n"


def _normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _places(count: int, below: int, seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, below, count).astype(np.int32)


def _side(scale: int, least: int = 32) -> int:
    return round(least * scale**0.5)


def _function(random: Random) -> Callable[[str, str], str]:
    """Of one real, as text, for `np` or `jnp`."""
    return random.choice(
        (
            lambda v, _: f"({v})**2",
            lambda v, np: f"{np}.tanh({v})",
            lambda v, np: f"{np}.sqrt(1 + ({v})**2)",
            lambda v, np: f"{np}.log(2 + {np}.cos({v}))",
            lambda v, np: f"{np}.sin({v})",
            lambda v, np: f"{np}.exp(-({v})**2)",
            lambda v, np: f"{np}.abs({v})",
        )
    )


def _number(random: Random) -> str:
    return str(random.choice((1, 2, 3, 4, 0.5, 0.25)) * random.choice((1, -1)))


# Classes


def stencil(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """Weighted sums of neighbours, perhaps of such sums, perhaps under a mask or times an array."""
    f, twice, masked = _function(random), random.random() < 0.4, random.random() < 0.3
    if random.random() < 0.4:
        return _stencil_of_lines(random, f, twice)
    places = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    weights = {p: _number(random) for p in random.sample(places, random.randint(3, 9))}

    def sums(y: str) -> str:
        return " + ".join(f"{c}*{y}[i+{1 + a}, j+{1 + b}]" for (a, b), c in weights.items())

    def slices(y: str) -> str:
        return " + ".join(
            f"{c}*{y}[{1 + a}:h-{1 - a}, {1 + b}:w-{1 - b}]" for (a, b), c in weights.items()
        )

    def layer(x: str) -> str:
        return f"[[{sums(x)} for j in range(w - 2)] for i in range(h - 2)]"

    second = "h, w = h - 2, w - 2" if twice else ""
    last = "y" if twice else "u"
    tail = " if M[i, j]" if masked else ""
    entry = sums(last).replace(", j+", "][j+") if twice else sums(last)  # `y` is a list of lists
    language = f"""
    def program(u, M):
        h, w = u.shape
        {f"y = {layer('u')}" if twice else ""}
        {second}
        return sum({f(entry, "np")} for i in range(h - 2) for j in range(w - 2){tail})
    """
    inner = f(slices(last), "jnp")
    whole = f"jnp.where(M[:h-2, :w-2], {inner}, 0)" if masked else inner
    direct = f"""
    def program(u, M):
        h, w = u.shape
        {f"y = {slices('u')}" if twice else ""}
        {second}
        return ({whole}).sum()
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 128)
        return _normal(n, n), np.random.default_rng(1).uniform(size=(n, n)) < 0.7

    return language, direct, at


def _stencil_of_lines(
    random: Random, f: Callable[[str, str], str], twice: bool
) -> tuple[str, str, Callable[[int], Arguments]]:
    reach = random.randint(1, 4)
    weights = {a: _number(random) for a in range(reach + 1)}

    def sums(y: str) -> str:
        return " + ".join(f"{c}*{y}[i+{a}]" for a, c in weights.items())

    def slices(y: str) -> str:
        return " + ".join(f"{c}*{y}[{a}:n-{reach - a}]" for a, c in weights.items())

    language = f"""
    def program(x, v):
        n = len(x)
        y = [{f(sums("x"), "np")} for i in range(n - {reach})]
        n = n - {reach}
        return sum({f"({sums('y')})" if twice else "y[i]"} * v[i] for i in range(n - {reach}))
    """
    direct = f"""
    def program(x, v):
        n = len(x)
        y = {f(slices("x"), "jnp")}
        n = n - {reach}
        return ({f"({slices('y')})" if twice else f"y[:n-{reach}]"} * v[:n-{reach}]).sum()
    """
    return language, direct, lambda scale: (_normal(scale << 14), _normal(scale << 14, seed=1))


def contraction(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """A function of a sum of products of two or three arrays."""
    f, count = _function(random), random.choice((2, 2, 3))
    names = "ijkl"[: random.choice((3, 3, 4)) if count > 2 else 3]
    while True:
        operands = [
            "".join(random.sample(names, random.choice((1, 2, 2, 3)))) for _ in range(count)
        ]
        out = "".join(sorted(random.sample(names, random.randint(1, 2))))
        shared = set(operands[0]) & set("".join(operands[1:])) - set(out)
        if set("".join(operands)) == set(names) and shared and max(map(len, operands)) > 1:
            break
    arrays = "ABC"[:count]
    product = " * ".join(
        f"{x}[{', '.join(axes)}]" for x, axes in zip(arrays, operands, strict=True)
    )
    sizes = {
        i: f"{x}.shape[{axes.index(i)}]"
        for x, axes in zip(arrays, operands, strict=True)
        for i in axes
    }
    summed = "".join(f" for {i} in range({sizes[i]})" for i in names if i not in out)
    entry = f"sum({product}{summed})"
    made = entry
    for i in reversed(out):
        made = f"[{made} for {i} in range({sizes[i]})]"
    read = "y" + "".join(f"[{i}]" for i in out)
    kept = "".join(f" for {i} in range({sizes[i]})" for i in out)
    language = f"""
    def program({", ".join(arrays)}):
        y = {made}
        return sum({f(f"0.1*{read}", "np")}{kept})
    """
    direct = f"""
    def program({", ".join(arrays)}):
        y = jnp.einsum("{",".join(operands)}->{out}", {", ".join(arrays)})
        return ({f("0.1*y", "jnp")}).sum()
    """
    shares = {i: random.choice((1, 1, 2, 0.5)) for i in names}

    def at(scale: int) -> Arguments:
        n = round(24 * scale ** (1 / len(names)))
        lengths = {i: max(4, round(n * share)) for i, share in shares.items()}
        return tuple(
            _normal(*(lengths[i] for i in axes), seed=k) / np.float32(n**0.5)
            for k, axes in enumerate(operands)
        )

    return language, direct, at


def reduction(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """Along one axis of a matrix: means, deviations, norms, largest entries, log-sum-exp, or a softmax; a function of those
    or of what they normalize.
    """
    along = random.randint(0, 1)
    ways = {
        "mean": ("sum(A[i, j] for {s}) / {n}", "A.mean({axis})"),
        "power": ("sum(A[i, j]**2 for {s}) / {n}", "(A**2).mean({axis})"),
        "largest": ("max(A[i, j] for {s})", "A.max({axis})"),
        "soft": ("np.log(sum(np.exp(A[i, j]) for {s}))", "jnp.log(jnp.exp(A).sum({axis}))"),
        "weighed": ("sum(A[i, j] * v[{summed}] for {s})", None),
    }
    (mine, theirs), f = random.choice([*ways.values()]), _function(random)
    kept, summed = ("j", "i") if along == 0 else ("i", "j")
    size = {"i": "n", "j": "m"}
    if theirs is None:
        theirs = "v @ A" if along == 0 else "A @ v"
    axes = {
        "s": f"{summed} in range({size[summed]})",
        "n": size[summed],
        "axis": along,
        "summed": summed,
    }
    stat, stat_direct = mine.format(**axes), theirs.format(**axes)
    after = random.choice(("alone", "taken off", "divided by"))
    there = "y[None, :]" if along == 0 else "y[:, None]"
    each = f"for {kept} in range({size[kept]})"
    both = "for i in range(n) for j in range(m)"
    if after == "alone":
        end, end_direct = f"sum({f(f'y[{kept}]', 'np')} {each})", f"({f('y', 'jnp')}).sum()"
    else:
        one, other = (
            (f"A[i, j] - y[{kept}]", f"A - {there}")
            if after == "taken off"
            else (f"A[i, j] / (1 + y[{kept}]**2)", f"A / (1 + {there}**2)")
        )
        end, end_direct = f"sum({f(one, 'np')} {both})", f"({f(other, 'jnp')}).sum()"
    language = f"""
    def program(A, v):
        n, m = A.shape
        y = [{stat} {each}]
        return {end}
    """
    direct = f"""
    def program(A, v):
        n, m = A.shape
        y = {stat_direct}
        return {end_direct}
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 128)
        return _normal(n, n), _normal(n, seed=1)

    return language, direct, at


def gather(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """A function of the ends of edges, of numbers or of rows; summed, or collected at one end first."""
    f, rows, collected = _function(random), random.random() < 0.5, random.random() < 0.5
    d = random.choice((3, 4, 16)) if rows else 0
    sign, weighed = random.choice("+-*"), random.random() < 0.5
    if rows:
        between = f"sum({f(f'x[src[e], q] {sign} x[dst[e], q]', 'np')} for q in range({d}))"
        between_direct = f"({f(f'x[src] {sign} x[dst]', 'jnp')}).sum(1)"
    else:
        between, between_direct = (
            f(f"x[src[e]] {sign} x[dst[e]]", "np"),
            f(f"x[src] {sign} x[dst]", "jnp"),
        )
    if weighed:
        between, between_direct = f"w[e] * {between}", f"w * {between_direct}"
    if collected:
        language = f"""
    def program(x, w, src, dst):
        n = len(x)
        sent = [sum({between} for e in range(len(src)) if dst[e] == i) for i in range(n)]
        return sum(np.tanh(sent[i]) for i in range(n))
    """
        direct = f"""
    def program(x, w, src, dst):
        sent = jax.ops.segment_sum({between_direct}, dst, len(x))
        return jnp.tanh(sent).sum()
    """
    else:
        language = f"""
    def program(x, w, src, dst):
        return sum({between} for e in range(len(src)))
    """
        direct = f"""
    def program(x, w, src, dst):
        return ({between_direct}).sum()
    """

    def at(scale: int) -> Arguments:
        n, edges = scale << 8, scale << 11
        shape = (n, d) if rows else (n,)
        return _normal(*shape), _normal(edges, seed=1), _places(edges, n, 2), _places(edges, n, 3)

    return language, direct, at


def _expression(random: Random, leaves: list[tuple[str, str]], depth: int) -> tuple[str, str]:
    if depth == 0:
        return random.choice(leaves)
    if random.random() < 0.4:
        f = _function(random)
        one, other = _expression(random, leaves, depth - 1)
        return f(one, "np"), f(other, "jnp")
    sign = random.choice("+-**")
    left, right = (_expression(random, leaves, depth - 1) for _ in range(2))
    if left == right:
        sign = "+"
    return f"({left[0]} {sign} {right[0]})", f"({left[1]} {sign} {right[1]})"


def entrywise(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """The sum of an expression of matrices and vectors, entry by entry."""
    leaves = [
        ("A[i, j]", "A"),
        ("A[i, j]", "A"),
        ("B[i, j]", "B"),
        ("x[i]", "x[:, None]"),
        ("y[j]", "y"),
    ]
    one, other = "", ""
    while "A" not in one:
        one, other = _expression(random, leaves, random.randint(2, 4))
    language = f"""
    def program(A, B, x, y):
        n, m = A.shape
        return sum({one} for i in range(n) for j in range(m))
    """
    direct = f"""
    def program(A, B, x, y):
        return jnp.broadcast_to({other}, A.shape).sum()
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 128)
        return _normal(n, n) / 4, _normal(n, n, seed=1) / 4, _normal(n, seed=2), _normal(n, seed=3)

    return language, direct, at


def pairwise(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """A function of all pairs of rows: of their distance or their product; all, those i < j, or log-sum-exp over one."""
    d, f = random.choice((2, 3, 8, 32)), _function(random)
    of = random.choice(("distance", "product"))
    way = random.choice(("all", "all", "each with the soft largest", "half"))
    if of == "distance":
        pair = f"sum((x[i, q] - z[j, q])**2 for q in range({d}))"
        pairs = "((x[:, None, :] - z[None, :, :])**2).sum(2)"
    else:
        pair, pairs = f"sum(x[i, q] * z[j, q] for q in range({d}))", "x @ z.T"
    if way == "each with the soft largest":
        end = f"sum(np.log(sum(np.exp(-{pair}) for j in range(m))) for i in range(n))"
        end_direct = f"jnp.log(jnp.exp(-{pairs}).sum(1)).sum()"
    elif way == "half":
        end = f"sum({f(pair, 'np')} for i in range(n) for j in range(m) if i < j)"
        end_direct = f"jnp.triu({f(pairs, 'jnp')}, 1).sum()"
    else:
        end = f"sum({f(pair, 'np')} for i in range(n) for j in range(m))"
        end_direct = f"({f(pairs, 'jnp')}).sum()"
    language = f"""
    def program(x, z):
        n, m = len(x), len(z)
        return {end}
    """
    direct = f"""
    def program(x, z):
        return {end_direct}
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 64)
        return _normal(n, d) / 3, _normal(n, d, seed=1) / 3

    return language, direct, at


def mixed(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """Two or three layers of a matrix one after the other: products, neighbours, rows chosen, functions, rows
    normalized.
    """
    layers = {
        "product": ("sum(A[i][k] * W[k, j] for k in range(m))", "A @ W"),
        "neighbours": (
            "A[i][j] + (A[i][j-1] if j > 0 else 0) + (A[i][j+1] if j < m - 1 else 0)",
            "A + jnp.pad(A, ((0, 0), (1, 0)))[:, :m] + jnp.pad(A, ((0, 0), (0, 1)))[:, 1:]",
        ),
        "chosen": ("A[place[i]][j]", "A[place]"),
        "function": ("np.tanh(A[i][j] + b[j])", "jnp.tanh(A + b)"),
        "normalized": (
            "A[i][j] / np.sqrt(1 + sum(A[i][q]**2 for q in range(m)) / m)",
            "A / jnp.sqrt(1 + (A**2).mean(1, keepdims=True))",
        ),
    }
    chosen = random.sample([*layers], random.choice((2, 3)))
    names = ["X", *(f"L{k}" for k in range(len(chosen)))]
    mine, theirs = [], []
    for k, layer in enumerate(chosen):
        one, other = (text.replace("A", names[k]) for text in layers[layer])
        mine.append(f"{names[k + 1]} = [[{one} for j in range(m)] for i in range(n)]")
        theirs.append(f"{names[k + 1]} = {other}")
    end, f = names[-1], _function(random)
    indent = "\n        "
    language = f"""
    def program(X, W, b, place):
        n, m = X.shape
        {indent.join(mine)}
        return sum({f(f"{end}[i][j]", "np")} for i in range(n) for j in range(m))
    """
    direct = f"""
    def program(X, W, b, place):
        n, m = X.shape
        {indent.join(theirs)}
        return ({f(end, "jnp")}).sum()
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 64)
        m = max(8, n // 2)
        W = _normal(m, m, seed=1) / np.float32(m**0.5)
        return _normal(n, m), W, _normal(m, seed=2), _places(n, n, 3)

    return language, direct, at


def structured(random: Random) -> tuple[str, str, Callable[[int], Arguments]]:
    """A matrix of which most entries are zero, by a condition on its indices, or half of them; in a residual, a quadratic form,
    a product with itself, or entry by entry. In JAX it is the whole matrix under a mask.
    """
    width, shift = random.randint(1, 4), random.randint(1, 9)
    conditions = {
        "band": (f"-{width} <= i - j <= {width}", f"abs(i - j) <= {width}"),
        "diagonal": ("i == j", "i == j"),
        "shifted": (f"j == i + {shift}", f"j == i + {shift}"),
        "arrow": ("i == j or i == 0 or j == 0", "(i == j) | (i == 0) | (j == 0)"),
        "triangle": ("j <= i", "j <= i"),
    }
    mine, theirs = conditions[random.choice([*conditions])]
    f, sign = _function(random), random.choice("+-*")
    entry, entries = random.choice(
        (
            ("D[i, j]", "D"),
            (f(f"x[i] {sign} y[j]", "np"), f(f"x[:, None] {sign} y[None, :]", "jnp")),
            ("D[i, j] * x[i]", "D * x[:, None]"),
        )
    )
    uses = (
        (
            "sum((sum(A[i][j] * x[j] for j in range(n)) - y[i])**2 for i in range(n))",
            "((A @ x - y)**2).sum()",
        ),
        ("sum(x[i] * A[i][j] * y[j] for i in range(n) for j in range(n))", "x @ A @ y"),
        (
            "sum(y[i] * sum(A[i][j] * sum(A[j][k] * x[k] for k in range(n)) for j in range(n)) for i in range(n))",
            "y @ (A @ (A @ x))",
        ),
        (
            f"sum({f('A[i][j]', 'np')} for i in range(n) for j in range(n) if {mine})",
            f"jnp.where(mask, {f('A', 'jnp')}, 0).sum()",
        ),
    )
    end, end_direct = random.choice(uses)
    language = f"""
    def program(x, y, D):
        n = len(x)
        A = [[{entry} if {mine} else 0 for j in range(n)] for i in range(n)]
        return {end}
    """
    direct = f"""
    def program(x, y, D):
        n = len(x)
        i, j = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
        mask = {theirs}
        A = jnp.where(mask, {entries}, 0)
        return {end_direct}
    """

    def at(scale: int) -> Arguments:
        n = _side(scale, 128)
        return _normal(n), _normal(n, seed=1), _normal(n, n, seed=2) / np.float32(n**0.5)

    return language, direct, at


KINDS: dict[str, Callable[[Random], tuple[str, str, Callable[[int], Arguments]]]] = {
    "stencil": stencil,
    "contraction": contraction,
    "reduction": reduction,
    "gather": gather,
    "map": entrywise,
    "pairwise": pairwise,
    "mixture": mixed,
    "structure": structured,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--each", type=int, default=EACH)
    options = parser.parse_args()
    for program in drawn(options.seed, options.each):
        print(f"# {program.name}\n{program.language}\n# in JAX\n{program.direct}")


if __name__ == "__main__":
    main()
