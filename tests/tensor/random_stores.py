"""Loops that store into arrays, drawn at random: places, operators and conditions as users of NumPy combine them."""

from __future__ import annotations

from random import Random

PLACES = ("i", "i", "i", "i+1", "0", "n-1-i", "i//2", "i%3", "-1", "i:i+1", "k[i]")
VALUES = ("x[i]", "2.0*x[i]", "1.0", "y0[i]", "x[n-1-i]", "x[i]**2", "y[i]")
CONDITIONS = ("i % 2 == 0", "i > 1", "x[i] > 0", "x[i] > x[0]", "i // 2 == 1", "i % 3 < 2")
ROWS, COLUMNS = ("i", "i", "j", "0", "i+1"), ("j", "j", "i", "1", "j+1", ":")
OF_TWO = ("A[i, j]", "x[i]", "2.0*A[j, i]", "1.0", "A[i, j]*x[j]", "Y[i, j]")
CONDITIONS_OF_TWO = (*CONDITIONS[:4], "i < j", "A[i, j] > 0", "(i + j) % 2")


def program(seed: int) -> str:
    """The source of `f(x, A, k)`, which returns the array that it has stored in."""
    draw = Random(seed)
    two = draw.random() < 0.35

    def change() -> str:
        values, place = (VALUES, f"y[{draw.choice(PLACES)}]")
        if two:
            values, place = OF_TWO, f"Y[{draw.choice(ROWS)}, {draw.choice(COLUMNS)}]"
        return (
            f"{place} {draw.choice(('=', '=', '=', '+=', '-=', '*=', '/='))} {draw.choice(values)}"
        )

    def statement(indent: str) -> list[str]:
        kind, test = draw.random(), draw.choice(CONDITIONS_OF_TWO if two else CONDITIONS)
        if kind > 0.42:
            return [indent + change()]
        lines = [f"{indent}if {test}:", f"{indent}    {change()}"]
        return lines if kind < 0.3 else [*lines, f"{indent}else:", f"{indent}    {change()}"]

    begun = (
        "Y = A.copy()" if two else "y = " + draw.choice(("x.copy()", "np.zeros(n)", "np.ones(n)"))
    )
    bounds = draw.choice(("n", "n", "1, n", "n - 1"))
    lines = ["def f(x, A, k):", "    n = len(x)", "    y0 = x * 3.0", f"    {begun}"]
    lines.append(f"    for i in range({bounds}):")
    if two:
        lines.append("        for j in range(n):")
    indent = " " * (12 if two else 8)
    lines += [line for _ in range(draw.choice((1, 2, 2, 3))) for line in statement(indent)]
    return "\n".join([*lines, f"    return {'Y' if two else 'y'}", ""])
