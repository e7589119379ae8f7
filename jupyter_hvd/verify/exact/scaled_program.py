"""Verifies that a program is scaled up correctly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...convert import Options
from ...convert.conversion_limit import CONVERSION_SECONDS, conversion_limit
from ...convert.documents import Document
from ...convert.unconverted_programs import common_variables, require_single_process
from ...files import UnusableInputError
from ..checks import Check
from .compare import TOLERANCE
from .verification import SEED, ExactVerification, verify_exact


def verify_scaled(
    path: Path,
    document: Document,
    sizes: Sequence[int],
    *,
    options: Options,
    part: Document | None = None,
    steps: int | None = None,
    timeout: float = 300.0,
    tolerance: float | None = None,
    beside: Path | None = None,
    confirmed: bool = False,
    listener: Callable[[Check], None] = lambda _: None,
    conversion_seconds: float = CONVERSION_SECONDS,
) -> ExactVerification:
    """Check that N ranks compute what the scaled program computes in one process, and that the program is scaled correctly.

    Line numbers are those of the scaled program, named NAME_hvd. Its learning rate is N times the original's from the
    beginning, also where the conversion would warm it up.

    Args:
        path: a notebook or script for one process; it is only read. document: its contents.
        part: the conversion with the changes that the user accepted; None for all. The others: see `verify_exact`.

    Raises:
        UnusableInputError: the program cannot be converted, or there is no room for the copies.
        LaunchError: the job cannot be started.
        UnconfirmedError: there are many files to copy.
    """
    require_single_process(path, document)
    with conversion_limit(path, conversion_seconds):
        conversion, scaled = document.convert(replace(options, warmup_epochs=0))
    if conversion.status != "converted":
        said = next((f": {d.message}" for d in conversion.diagnostics), "")
        raise UnusableInputError(
            f"{path}: {conversion.status}, there is no conversion to verify{said}"
        )
    return verify_exact(
        path.with_stem(f"{path.stem}_hvd"),
        part or scaled,
        sizes,
        variables=common_variables(options, SEED),
        steps=steps,
        timeout=timeout,
        tolerance=tolerance or TOLERANCE,
        beside=beside or path.parent,
        confirmed=confirmed,
        opened=path,
        original=document,
        listener=listener,
    )
