"""Conversion against what LibCST alone needs to parse, resolve the same metadata, and print.

    python benchmarks/conversion.py [--batch global] [--pairs 5] [FILE …]    the programs of tests/programs if none is given

Each file is measured in turn, ours and LibCST's in pairs of CPU times; the medians of the pairs and of their ratio are printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, ScopeProvider

from jupyter_hvd import Options, convert_source


def libcst_alone(source: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    wrapper.resolve_many([PositionProvider, ParentNodeProvider, ScopeProvider])
    assert wrapper.module.code == source


def seconds(work: Callable[[str], object], source: str) -> float:
    started = time.process_time()
    work(source)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--batch", default="per-rank")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    here = Path(__file__).parents[1] / "tests" / "programs"
    sources = [path.read_text() for path in given.files or sorted(here.glob("*.py"))]
    convert = partial(convert_source, options=Options(batch=given.batch))
    ours, theirs = [], []
    for source in sources:
        pairs = [
            (seconds(convert, source), seconds(libcst_alone, source)) for _ in range(given.pairs)
        ]
        ours.append(median(a for a, _ in pairs))
        theirs.append(median(b for _, b in pairs))
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    print(f"{len(sources)} files, median of {given.pairs} pairs each")
    print(f"conversion   {median(ours) * 1e3:6.1f} ms a file")
    print(f"LibCST alone {median(theirs) * 1e3:6.1f} ms a file")
    print(
        f"ratio        {median(ratios):6.2f} (largest {max(ratios):.2f}, of all {sum(ours) / sum(theirs):.2f})"
    )


if __name__ == "__main__":
    main()
