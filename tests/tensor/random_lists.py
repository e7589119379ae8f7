"""Loops that read lists and append to them, drawn at random."""

from __future__ import annotations

from random import Random

BEGINNINGS = (
    "[v for v in x]",
    "list(x)",
    "[2.0 * x[i] for i in range(n)]",
    "[x[0], x[1]]",
    "[x[0]]",
)
BEGINNINGS = (*BEGINNINGS, "[x[i] for i in range(3)]", "[]", "[0.5 for _ in range(n)]")
BOUNDS = ("n", "1, n", "2, n", "4")
PLACES = ("i", "-1", "-2", "0", "i // 2", "i - 1", "k[i]")
TESTS = ("x[i] > 0", "i > 1", "i % 2 == 0")


def program(seed: int) -> str:
    """The source of `f(x, k)`, which returns a number that depends on all that its lists have."""
    draw = Random(seed)

    def read(name: str) -> str:
        return f"{name}[{draw.choice((*PLACES, f'len({name}) - 1'))}]"

    def value() -> str:
        y, z = read("y"), read("z")
        values = ("x[i]", y, z, "s", f"0.5 * {y} + x[i]", f"{y} * {z}", "sum(y)", "len(y) * x[i]")
        return draw.choice((*values, "max(z)"))

    def statement() -> str:
        e = value()
        grown = (f"y.append({e})", f"y.append({e})", f"z.append({e})", f"y += [{e}]")
        others = (f"s = 0.5 * s + {e}", f"s += {e}", f"y = y[1:] + [{e}]", f"y[0] = {e}")
        return draw.choice((*grown, *others))

    lines = ["def f(x, k):", "    n, s = len(x), 0.5"]
    lines += [f"    {name} = {draw.choice(BEGINNINGS)}" for name in "yz"]
    lines.append(f"    for i in range({draw.choice(BOUNDS)}):")
    for _ in range(draw.choice((1, 2, 2, 3))):
        line = statement()
        if draw.random() > 0.25:
            lines.append(f"        {line}")
            continue
        lines += [f"        if {draw.choice(TESTS)}:", f"            {line}"]
        if draw.random() < 0.5:
            lines += [
                "        else:",
                f"            {line[0]}.append({value()})".replace("s.", "y."),
            ]
    lines.append("    return s + sum(v * v for v in y) + 0.1 * sum(z) + len(y) + 2 * len(z)")
    return "\n".join([*lines, ""])
