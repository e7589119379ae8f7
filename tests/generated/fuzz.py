"""Converts programs that nobody wrote, and runs them on two living ranks: `make fuzz-convert`.

A program is right, refused by a rule, or a failure: wrong, or unchanged though it trains. A failure is made as
small as it goes and printed with its seed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass

from grammar import Program, draw, text
from laboratory import Laboratory, converted
from oracle import Verdict


@dataclass(frozen=True)
class Tried:
    seed: int
    program: Program
    verdict: Verdict


def ahead(
    pool: Executor, seeds: Iterable[int], by: int = 6
) -> Iterator[tuple[int, Program, object]]:
    """Programs and their conversions, made in another process while the ranks work."""
    waiting = []
    for seed in seeds:
        p = draw(seed)
        waiting.append((seed, p, pool.submit(converted, text(p))))
        if len(waiting) > by:
            seed, p, result = waiting.pop(0)
            yield seed, p, result.result()
    for seed, p, result in waiting:
        yield seed, p, result.result()


def work(
    seeds: Iterable[int], tell: Callable[[Tried | BaseException], None], timeout: float
) -> None:
    context = multiprocessing.get_context("spawn")
    try:
        with Laboratory(timeout=timeout) as laboratory, ProcessPoolExecutor(1, context) as pool:
            for seed, p, conversion in ahead(pool, seeds):
                tell(Tried(seed, p, laboratory.try_out(p, seed, conversion)))
    except BaseException as error:
        tell(error)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--workers", type=int, default=1, help="each with two ranks and a process beside them"
    )
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for a program")
    parser.add_argument(
        "--show", type=int, metavar="SEED", help="print one program, and its conversion, and run it"
    )
    parser.add_argument("--reduce", type=int, default=10, help="how many failures are made small")
    arguments = parser.parse_args()
    if arguments.show is not None:
        return show(arguments.show)
    seeds = range(arguments.start, arguments.start + arguments.programs)
    counts: Counter[str] = Counter()
    failures: list[Tried] = []
    began = time.monotonic()
    for tried in trials(seeds, arguments.workers, arguments.timeout):
        kind = tried.verdict.kind
        counts[f"{kind} {tried.verdict.reason}" if kind == "refused" else kind] += 1
        if kind in ("wrong", "broken"):
            failures.append(tried)
            print(described(tried), flush=True)
        done = counts.total()
        if done % 100 == 0:
            print(
                f"{done} programs, {done / (time.monotonic() - began):.2f} a second: {summary(counts)}",
                flush=True,
            )
    print(f"{counts.total()} programs from seed {arguments.start}: {summary(counts)}")
    report(failures, arguments.reduce)
    return 1 if failures else 0


def described(tried: Tried) -> str:
    """A failure in a line: how an error's traceback begins and ends is the most of it."""
    told = tried.verdict.reason.strip().splitlines()
    reason = told[0] if len(told) == 1 else f"{told[0]} … {told[-1][:160]}"
    return f"seed {tried.seed}: {tried.verdict.kind}: {reason} | {', '.join(tried.program.parts)}"


def trials(seeds: Sequence[int], workers: int, timeout: float) -> Iterator[Tried]:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [
        context.Process(target=work, args=(seeds[number::workers], results.put, timeout))
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    for _ in seeds:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        yield result
    for process in processes:
        process.join()


def summary(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def report(failures: list[Tried], most: int) -> None:
    """Print failures of different kinds, made small, with their seeds."""
    seen: set[tuple[str, ...]] = set()
    with Laboratory() as laboratory:
        for tried in failures[:most]:
            p, verdict = laboratory.smallest(tried.program, tried.seed, tried.verdict)
            if p.parts in seen:
                continue
            seen.add(p.parts)
            parts = ", ".join(p.parts) or "the simplest"
            reason = verdict.reason.strip()[-1500:].replace("\n", "\n# ")
            print(f"\n# seed {tried.seed}: {verdict.kind}, {parts}\n# {reason}\n{text(p)}")


def show(seed: int) -> int:
    p = draw(seed)
    conversion = converted(text(p))
    print(
        text(p),
        "\n# ---- converted:",
        conversion.status,
        [(d.code, d.message) for d in conversion.diagnostics],
    )
    print(conversion.code)
    with Laboratory() as laboratory:
        print(p.parts, laboratory.try_out(p, seed, conversion))
    return 0


if __name__ == "__main__":
    sys.exit(main())
