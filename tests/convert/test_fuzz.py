"""Sources that nobody would write: real programs with lines and names mutated at random.

Whatever comes in, the converter does not crash, what it writes is Python, converting again
changes nothing, and what it does not convert comes back as it was.
"""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_hvd import convert_source
from jupyter_hvd.convert.engine import syntax_error

from ..suite import PROGRAMS

SOURCES = sorted(program.source for program in PROGRAMS)
NAMES = ("tf", "model", "opt", "tape", "ds", "loss", "x", "hvd", "gpus", "print", "keras")
FRAGMENTS = (
    "",
    "(",
    ")",
    "pass",
    "*args",
    "lambda: 0",
    "\n",
    "\t",
    "# hvd: ignore",
    "'''",
    "é",
    ";",
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    lines = draw(st.sampled_from(SOURCES)).split("\n")
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(lines) - 1))
        other = draw(st.integers(0, len(lines) - 1))
        match draw(
            st.sampled_from(("delete", "double", "swap", "indent", "rename", "insert", "join"))
        ):
            case "delete" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(other, lines[at])
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "indent":
                lines[at] = "    " + lines[at]
            case "rename":
                old, new = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
                lines[at] = re.sub(rf"\b{old}\b", new, lines[at])
            case "insert":
                place = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:place] + draw(st.sampled_from(FRAGMENTS)) + lines[at][place:]
            case "join":
                lines[at] += "; " + lines[other].strip()
    return "\n".join(lines)


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(mutated())
def test_mutated_sources(source: str) -> None:
    conversion = convert_source(source)
    if conversion.status == "converted":
        ast.parse(conversion.code)
        assert convert_source(conversion.code).code == conversion.code
    else:
        assert conversion.code == source
    assert (conversion.status == "invalid") >= (syntax_error(source) is not None)
