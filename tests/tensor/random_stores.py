"""Stores into arrays, drawn at random: places, operators and conditions as users of NumPy combine them."""

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


BRACKETS = ("i", "j", "0", "-1", "k", "K", "k[i]", ":", "::2", "1:", "::-1", "i:", "1::2")
BRACKETS = (*BRACKETS, "np.arange(5)", "[0, 2]", "i // 2")
STORED = ("x[i]", "2.0", "A[i, j]", "A[0]", "x", "A[i]", "np.arange(5.0)", "A[:, 0]")


def program_of_brackets(seed: int) -> str:
    """The source of a function that stores along slices, index arrays and both, in a loop or outside."""
    draw = Random(seed)
    is_vector, has_loop = draw.random() < 0.4, draw.random() < 0.6
    begun = ("x.copy()", "np.zeros(5)") if is_vector else ("A.copy()", "np.ones((5, 5))")
    lines = [
        "def f(x, A, k):",
        "    A = A[:5, :5]",
        f"    y = {draw.choice(begun)}",
        "    K = np.argsort(x)[:3]",
    ]
    lines += ["    i, j = 1, 2", "    for i in range(5):"][: 1 + has_loop]
    for _ in range(draw.choice((1, 1, 2))):
        places = [draw.choice(BRACKETS) for _ in range(1 if is_vector else 2)]
        indent = "    " * (1 + has_loop)
        if draw.random() < 0.25:
            lines.append(f"{indent}if {draw.choice(('i > 1', 'x[i] > 0', 'i % 2 == 0'))}:")
            indent += "    "
        op = draw.choice(("=", "=", "+=", "-=", "*="))
        lines.append(f"{indent}y[{', '.join(places)}] {op} {draw.choice(STORED)}")
    return "\n".join([*lines, "    return y", ""])
