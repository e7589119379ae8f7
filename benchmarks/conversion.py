"""Conversion against what LibCST alone needs to parse, resolve the same metadata, and print.

    python benchmarks/conversion.py [FILE …]      the programs of tests/programs if none is given

Each file is measured in turn, ours and LibCST's in pairs; the medians of the pairs and of their ratio are printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, ScopeProvider

from jupyter_hvd import convert_source

PAIRS = 5


def libcst_alone(source: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    wrapper.resolve_many([PositionProvider, ParentNodeProvider, ScopeProvider])
    assert wrapper.module.code == source


def seconds(work: Callable[[str], object], source: str) -> float:
    started = time.perf_counter()
    work(source)
    return time.perf_counter() - started


def main() -> None:
    here = Path(__file__).parents[1] / "tests" / "programs"
    sources = [Path(name).read_text() for name in sys.argv[1:]] or [
        p.read_text() for p in sorted(here.glob("*.py"))
    ]
    ours, theirs = [], []
    for source in sources:
        pairs = [
            (seconds(convert_source, source), seconds(libcst_alone, source)) for _ in range(PAIRS)
        ]
        ours.append(median(a for a, _ in pairs))
        theirs.append(median(b for _, b in pairs))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(f"{len(sources)} files, median of {PAIRS} pairs each")
    print(f"conversion   {median(ours) * 1e3:6.1f} ms a file")
    print(f"LibCST alone {median(theirs) * 1e3:6.1f} ms a file")
    print(
        f"ratio        {median(ratios):6.2f} (largest {max(ratios):.2f}, of all {sum(ours) / sum(theirs):.2f})"
    )


if __name__ == "__main__":
    main()
