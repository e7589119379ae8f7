"""The long run of the random programs: `python tests/tensor/fuzz.py --programs 100000 --workers
2`. With `--loops`, of programs with loops that carry values; with `--fills`, with loops that fill arrays; with
`--joins`, of programs over several relations and their kernels, which run over joins; with `--jacobians`, of sparse Jacobians.

Each program is drawn from its own seed, so a failure names the seed that reproduces it. Prints
the largest cost ratios seen. Rules broken on purpose (`test_theorems.py`) are found soonest by programs of depth 3.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

import jax
import random_fills
import random_jacobians
import random_joins
import random_loops
import theorems


def run(seeds: range, depth: int, kind: str) -> tuple[int, Fraction, Fraction, list[str]]:
    """Check one program a seed; the largest ratios and the failures."""
    theorems.RATIOS, random_loops.RATIOS = theorems.Ratios(), random_loops.Ratios()
    random_jacobians.SEEN = random_jacobians.Seen()
    failures = []
    gc.disable()  # which would search the table of terms, over and over, for the few cycles of a chunk
    if kind in ("joins", "jacobians"):
        jax.config.update("jax_enable_x64", True)
    if kind == "joins":
        random_joins.join_always(setattr)
    for seed in seeds:
        try:
            if kind == "loops":
                random_loops.check(seed, depth)
            elif kind == "fills":
                random_fills.check(seed, depth - 1)
            elif kind == "joins":
                random_joins.check(seed, depth)
                theorems.RATIOS.programs += 1
            elif kind == "jacobians":
                random_jacobians.check(seed)
            else:
                theorems.check(Random(seed), depth)
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {error}"[:2000])
    gc.collect()
    if kind == "jacobians":
        seen = random_jacobians.SEEN
        print(seen, flush=True)
        return seen.programs, seen.ratio, Fraction(0), failures
    seen = random_loops.RATIOS if kind in ("loops", "fills") else theorems.RATIOS
    return seen.programs, seen.forward, seen.adjoint, failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    kinds = parser.add_mutually_exclusive_group()
    for kind, what in (
        ("loops", "programs with loops that carry values"),
        ("fills", "programs with loops that fill arrays"),
        ("joins", "programs over several relations, and their kernels"),
        ("jacobians", "sparse Jacobians, whose $J/(ρ·$D) stands for $D/$"),
    ):
        kinds.add_argument(
            f"--{kind}", dest="kind", action="store_const", const=kind, default="", help=what
        )
    options = parser.parse_args()
    depth = options.depth or (4 if options.kind else 3)
    end, chunk = options.start + options.programs, 25 if options.kind else 50
    chunks = [range(k, min(end, k + chunk)) for k in range(options.start, end, chunk)]
    began, programs, forward, adjoint = time.monotonic(), 0, Fraction(0), Fraction(0)
    failed = False
    bound = "$IO(Dᵀ)/($IO + I)" if options.kind in ("loops", "fills") else "$IO(Dᵀ)/$IO"
    with ProcessPoolExecutor(options.workers) as pool:
        rest = [depth] * len(chunks), [options.kind] * len(chunks)
        for done, *ratios, failures in pool.map(run, chunks, *rest):
            programs += done
            forward, adjoint = max(forward, ratios[0]), max(adjoint, ratios[1])
            for failure in failures:
                failed = True
                print(failure, flush=True)
            print(
                f"{programs} programs in {time.monotonic() - began:.0f} s; largest "
                f"$D/$ = {float(forward):.3f}, {bound} = {float(adjoint):.3f}",
                flush=True,
            )
    return failed


if __name__ == "__main__":
    sys.exit(main())
