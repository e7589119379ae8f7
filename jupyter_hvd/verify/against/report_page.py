"""Writes the outcome of a comparison as one HTML file without external resources: verdict, losses, checks, environment."""

from __future__ import annotations

import math
import os
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from html import escape

from ...package_versions import computing_versions
from ...svg import Axis, Frame, Series, plot
from ..checks import MARKS, Check
from .verification import AgainstVerification, Curves

FRAME = Frame(640, 260, (48, 48, 48, 48))
#: Points of a curve beyond which every k-th is drawn.
MOST_POINTS = 2000
STYLE = """\
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --faint: #d5dae1; --soft: #5b6572;
  --good: #176f3a; --bad: #b3261e; --open: #8a5a00; --one: #1f5fbf; --other: #c4560a; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --ink: #e8ebef; --faint: #343b44; --soft: #a3adb9;
  --good: #6cd28f; --bad: #ff8a80; --open: #f0bf5a; --one: #7fb2ff; --other: #ffa05c; } }
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 2rem auto; max-width: 54rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { border-left: 4px solid var(--open); padding: .5rem 1rem; }
.verdict.pass { border-color: var(--good); } .verdict.fail { border-color: var(--bad); }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--faint); padding: .3rem .5rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
.pass { color: var(--good); } .fail { color: var(--bad); } .unknown { color: var(--open); }
svg { width: 100%; height: auto; } svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
.one { stroke: var(--one); } .other { stroke: var(--other); }
polyline { fill: none; stroke-width: 2; } .other { stroke-dasharray: 6 4; }
footer { color: var(--soft); margin-top: 2rem; }
"""


def describe_environment() -> Mapping[str, str]:
    """Return the versions, processor and operating system of this machine."""
    found = {"Python": sys.version.split()[0], "system": platform.platform()}
    found["processors"] = str(os.cpu_count())
    return {**found, **computing_versions()}


def render_report(
    original: str, other: str, verification: AgainstVerification, environment: Mapping[str, str]
) -> str:
    """Render the outcome of a comparison as an HTML page.

    Args:
        original, other: the names of the programs.
        environment: facts about versions and machine.
    """
    status = "pass" if verification.holds else "fail" if verification.fails else "unknown"
    facts = {
        "original": original,
        "other program": other,
        "ranks": str(verification.size),
        "batches": verification.mode or "not known",
        "training steps": f"{verification.steps} in one process, {verification.compared} compared",
    }
    title = f"{other} against {original}"
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="verdict {status}">{render_message(verification.verdict)}</p>
{facts_table(facts)}
<h2>Losses</h2>
{loss_plot(verification.curves)}
<h2>Checks</h2>
<table>
<thead><tr><th></th><th>check</th><th>what was found</th></tr></thead>
<tbody>
{"".join(map(check_row, verification.checks))}</tbody>
</table>
<h2>Environment</h2>
{facts_table(environment)}
<footer>Written by <code>jupyter hvd verify --against --report</code>. What was not observed is not confirmed.</footer>
</body>
</html>
"""


def facts_table(facts: Mapping[str, str]) -> str:
    """Render facts as an HTML table, one row each."""
    rows = (
        f"<tr><th>{escape(name)}</th><td>{render_message(said)}</td></tr>"
        for name, said in facts.items()
    )
    return f"<table><tbody>\n{''.join(rows)}\n</tbody></table>"


def check_row(check: Check) -> str:
    """Return the HTML row of a check."""
    mark = f'<td class="{check.status}">{MARKS[check.status]}</td>'
    return f"<tr>{mark}<th>{escape(check.check)}</th><td>{render_message(check.detail)}</td></tr>\n"


def render_message(message: str) -> str:
    """Render a message as HTML, text in backticks as code."""
    return re.sub("`([^`\n]+)`", r"<code>\1</code>", escape(message)).replace("\n", "<br>")


def loss_plot(curves: Curves) -> str:
    """Draw both loss curves in one SVG plot; return a sentence where no loss was observed."""
    finite = [value for curve in curves for value in curve if math.isfinite(value)]
    if not finite:
        return "<p>No loss was observed.</p>"
    low, high = min(finite), max(finite)
    high += (high == low) * max(1.0, abs(high))
    steps = max(map(len, curves))

    def drawn(curve: Sequence[float]) -> list[tuple[float, float]]:
        each = max(1, len(curve) // MOST_POINTS)
        return [(n, v) for n, v in list(enumerate(curve))[::each] if math.isfinite(v)]

    last = max(1, steps - 1)
    return plot(
        [
            Series("original, one process", drawn(curves[0]), {"class": "one"}),
            Series("other program, mean of its ranks", drawn(curves[1]), {"class": "other"}),
        ],
        Axis(0, last, [(0, "step 1"), (last, f"step {steps}")]),
        Axis(low, high, [(low, f"{low:.4g}"), (high, f"{high:.4g}")]),
        "The losses of both programs by step",
        frame=FRAME,
        has_legend=True,
    )
