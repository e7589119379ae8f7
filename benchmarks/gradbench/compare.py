"""GradBench's evaluations of this tool and others, one after the other, each on one core: the outcome and the score of each.

    python benchmarks/gradbench/compare.py CHECKOUT [--evals gmm …] [--tools jupyter_hvd jax …] [--write]

CHECKOUT is a checkout of GradBench, whose evaluations, validators and tools run as they are. C++ tools are compiled by its
Makefiles, for which `cpp/json.hpp` must be there; CPATH leads to what they include. This is its intermediary, and its score: one
over the sum, over all workloads, of the mean times of function and derivative, and of `particle` and `saddle` one over the least
time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "gradbench.md"
TOOLS = "jupyter_hvd", "jax", "pytorch", "tensorflow", "codipack", "finite", "manual"
COMPILED = "codipack", "finite", "manual"
EVALS = "det", "gmm", "ba", "ht", "kmeans", "llsq", "lse", "lstm", "ode", "particle", "saddle"
EQUIVALENT = "particle", "saddle"  # evaluations whose functions are four ways to the same result


@dataclass
class Outcome:
    """What became of one tool at one evaluation: the seconds of each run of each workload and function, and the first error."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    valid: int = 0
    error: str = ""

    def total(self, equivalent: bool) -> float | None:
        """The seconds that GradBench's score is one over; None where something failed."""
        return self._together(equivalent, 0)

    def later(self, equivalent: bool) -> float | None:
        """The same without the first run of each, in which some tools compile."""
        return self._together(equivalent, 1)

    def _together(self, equivalent: bool, skipped: int) -> float | None:
        if self.error or not self.valid:
            return None
        times = [fmean(runs[skipped:] or runs) for runs in self.seconds.values()]
        return min(times) if equivalent else sum(times)


def command(tool: str) -> list[str]:
    if tool == "jupyter_hvd":
        return [sys.executable, str(HERE / "tool.py")]
    if tool in COMPILED:
        return [sys.executable, "python/gradbench/gradbench/cpp.py", tool]
    return [sys.executable, f"python/gradbench/gradbench/tools/{tool}/run.py"]


def environment(checkout: Path, name: str, clock: str) -> dict[str, str]:
    """Python finds the suite and, of a tool, its modules; each library computes on one thread.
    `clock` is a library by which C++ takes CPU time, empty where clocks stay as they are.
    """
    own = checkout / "python" / "gradbench"
    paths = [own, own / "gradbench" / "tools" / name] if name else [own]
    if name:
        paths.append(HERE / "clock")
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
    return {
        **os.environ,
        **dict.fromkeys(threads, "1"),
        **({"LD_PRELOAD": clock} if clock and name in COMPILED else {}),
        **({"GRADBENCH_CPU_TIME": "1"} if clock else {}),
        "PYTHONPATH": os.pathsep.join(map(str, [*paths, HERE.parents[1]])),
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def run(
    checkout: Path, name: str, tool: str, options: Sequence[str], limit: float, clock: str
) -> Outcome:
    """One evaluation of one tool: every line of each is the other's, until the evaluation is over or a message takes too long."""
    core = min(os.sched_getaffinity(0))

    def started(arguments: list[str], path: str, pinned: bool) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*(("taskset", "-c", str(core)) if pinned else ()), *arguments],
            cwd=checkout,
            env=environment(checkout, path, clock),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    script = f"python/gradbench/gradbench/evals/{name}/run.py"
    asking = started([sys.executable, script, *options], "", False)
    answering = started(command(tool), tool, True)
    outcome, sent = Outcome(), {}
    try:
        while line := _line(asking, None):
            message = json.loads(line)
            answering.stdin.write(line)
            answering.stdin.flush()
            reply = _line(answering, limit if message["kind"] == "evaluate" else None)
            if not reply:
                outcome.error = outcome.error or f"no answer within {limit:.0f} s"
                break
            _noted(outcome, message, json.loads(reply), sent)
            if outcome.error:
                break
            asking.stdin.write(reply)
            asking.stdin.flush()
    finally:
        for process in (asking, answering):
            process.kill()
            process.wait()
    return outcome


def _line(process: subprocess.Popen[str], limit: float | None) -> str:
    import select

    if limit is not None and not select.select([process.stdout], [], [], limit)[0]:
        return ""
    return process.stdout.readline()


def _noted(
    outcome: Outcome, message: Mapping[str, Any], reply: Mapping[str, Any], sent: dict[int, str]
) -> None:
    kind = message["kind"]
    if kind == "analysis":
        if message["valid"]:
            outcome.valid += 1
        else:
            outcome.error = f"{sent[message['of']]}: {message.get('error', 'invalid')}"
    elif kind in ("define", "evaluate"):
        what = f"{message.get('function', 'define')} {message.get('description', '')}"
        sent[message["id"]] = what
        if not reply.get("success"):
            outcome.error = f"{what}: {reply.get('error', '')}"
        times = [
            t["nanoseconds"] / 1e9 for t in reply.get("timings", ()) if t["name"] == "evaluate"
        ]
        if times:
            outcome.seconds[what] = times


def _table(outcomes: Mapping[tuple[str, str], Outcome], tools: Sequence[str]) -> str:
    """A row an evaluation, a column a tool: the seconds that its score is one over, and those without first runs."""
    names = [*dict.fromkeys(name for name, _ in outcomes)]
    lines = [f"| | {' | '.join(tools)} |", f"|---|{'---|' * len(tools)}"]
    for name in names:
        cells = []
        for tool in tools:
            found = outcomes[name, tool]
            total, later = found.total(name in EQUIVALENT), found.later(name in EQUIVALENT)
            failed = "fails" if found.valid else "—"
            cells.append(f"{total:.3g}, {later:.3g}" if total and later else failed)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cpu_clock() -> str:
    """A compiled `clock.c`, in a folder that stays."""
    made = Path(tempfile.mkdtemp()) / "clock.so"
    compiler = ["cc", "-shared", "-fPIC", "-O2", str(HERE / "clock" / "clock.c")]
    subprocess.run([*compiler, "-o", str(made)], check=True)
    return str(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--evals", nargs="+", default=EVALS, choices=EVALS)
    parser.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    parser.add_argument("--option", action="append", default=[], metavar="EVAL=OPTIONS")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one message")
    parser.add_argument("--results", type=Path, help="a JSON file of all times")
    parser.add_argument("--cpu-time", action="store_true", help="for a busy machine")
    given = parser.parse_args()
    clock = cpu_clock() if given.cpu_time else ""
    checkout = given.checkout.resolve()
    options = {name: text.split() for name, _, text in (o.partition("=") for o in given.option)}
    outcomes: dict[tuple[str, str], Outcome] = {}
    for name in given.evals:
        for tool in given.tools:
            found = run(checkout, name, tool, options.get(name, ()), given.limit, clock)
            outcomes[name, tool] = found
            total, later = found.total(name in EQUIVALENT), found.later(name in EQUIVALENT)
            shown = (
                f"{total:.4g} s, {later:.4g} s later"
                if total and later
                else found.error.strip()[-300:]
            )
            print(f"{name:9} {tool:12} {found.valid:3} valid  {shown}", flush=True)
    print(_table(outcomes, given.tools))
    if given.results:
        rows = {f"{n} {t}": (o.seconds, o.valid, o.error) for (n, t), o in outcomes.items()}
        given.results.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
