"""`jupyter hvd estimate`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..convert.documents import load_document
from ..convert.unconverted_programs import common_variables, require_single_process
from ..cost_model import LINKS, SingleProcessStep, speed_up, step_seconds
from ..files import UnusableInputError
from .codes import OK
from .options import add_batch, options_for
from .program_copy import write_program_copy
from .show import make_consoles

if TYPE_CHECKING:
    from rich.table import Table

    from ..convert import Options
    from ..convert.documents import Document
    from ..convert.rules.base import Batch

TIMED_MODULE = "jupyter_hvd.ranks.timed_rank"


@dataclass(frozen=True)
class Row:
    """A training step of some ranks, on one process's batch in total or on N times as much.

    Attributes:
        seconds, gain: of a step, and the factor of examples per second, where each rank has its own cores.
        here_seconds, here_gain: the same where the ranks share this machine's cores. measured: whether these two are measured.
    """

    ranks: int
    batch: Batch
    seconds: float
    gain: float
    here_seconds: float
    here_gain: float
    measured: bool


def add_parser(commands: Any) -> None:
    """Add the command `estimate`."""
    parser = commands.add_parser(
        "estimate",
        help="say what a training step takes on N ranks",
        usage="jupyter hvd estimate FILE -n N,… [options] [-- ARGS]",
        description="Run the program in one process, on a copy of its folder, until some steps are timed; estimate N ranks.",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    add(
        "-n",
        type=parse_numbers,
        default=(1, 2, 4),
        metavar="N,…",
        dest="sizes",
        help="ranks (1,2,4)",
    )
    add_batch(parser)
    add("--network", choices=[*LINKS], default="10GbE", help="between the ranks (10GbE)")
    add("--bandwidth", type=parse_positive, metavar="B", help="of the network, in bytes a second")
    add("--latency", type=parse_positive, metavar="S", help="of the network, in seconds")
    add("--measure", action="store_true", help="measure on N ranks of this machine, too")
    add("--timeout", type=float, default=300, metavar="S", help="seconds for each run (300)")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=run_estimate)


def parse_positive(text: str) -> float:
    """Parse a positive number.

    Raises:
        ValueError: it is not one.
    """
    value = float(text)
    if not 0 < value < 1e15:
        raise ValueError(text)
    return value


def parse_numbers(text: str) -> tuple[int, ...]:
    """Parse numbers of ranks.

    Raises:
        ValueError: they are not.
    """
    sizes = tuple(dict.fromkeys(map(int, text.split(","))))
    if not sizes or min(sizes) < 1:
        raise ValueError(text)
    return sizes


def run_estimate(arguments: argparse.Namespace) -> int:
    """Run `estimate`: time some steps in one process, print a row per number of ranks, return the exit code."""
    from ..convert.rules.base import BATCHES

    options = options_for(argparse.Namespace(batch=arguments.batch), arguments.file)
    document = require_single_process(arguments.file, load_document(arguments.file))
    batches: tuple[Batch, ...] = (arguments.batch,) if arguments.batch else BATCHES
    alone = time_single_process(arguments, document)
    rows = list(estimate_rows(arguments, alone, batches, options, document))
    if arguments.json:
        print(json.dumps({"alone": vars(alone), "rows": [vars(row) for row in rows]}, indent=2))
        return OK
    console, _ = make_consoles(False)
    console.print(table_of(rows))
    for line in explain_figures(arguments, alone, rows):
        console.print(line, soft_wrap=True, markup=False)
    return OK


def time_single_process(arguments: argparse.Namespace, document: Document) -> SingleProcessStep:
    """Time a step of one process.

    Raises:
        UnusableInputError: no step was observed.
    """
    times = time_program(arguments, document, 1, {})
    return SingleProcessStep(times["seconds"], times["cpu_seconds"], times["cores"], times["bytes"])


def time_program(
    arguments: argparse.Namespace, document: Document, size: int, variables: dict[str, str]
) -> dict[str, Any]:
    """Time a program on some ranks of this machine; return the output of `ranks.timed_rank`.

    Raises:
        UnusableInputError: no step was observed.
    """
    from ..launch.hosts import LaunchError
    from ..launch.job import Program, run_job, run_single
    from ..launch.rank_placement import place_ranks
    from ..launch.signals import ended_by_signals
    from ..ranks.timed_rank import TIMES_VARIABLE

    path: Path = arguments.file
    with (
        ended_by_signals(),
        write_program_copy(path, path.name, document, document, False) as (copy, folder, _),
    ):
        file = folder.path / "times.json"
        job = Program(copy, path, arguments.extra, module=TIMED_MODULE)
        environment = {**variables, TIMES_VARIABLE: str(file)}
        try:
            if size == 1:
                result, _ = run_single(
                    job, folder, timeout=arguments.timeout, environment=environment
                )
            else:
                result = run_job(
                    job,
                    place_ranks(size),
                    folder,
                    timeout=arguments.timeout,
                    listener=lambda *_: None,
                    environment=environment,
                )
        except LaunchError as error:
            raise UnusableInputError(str(error)) from None
        if not file.exists():
            why = result.report.strip() or "it ends before two seconds of training have passed"
            raise UnusableInputError(f"{path}: no step could be timed on {size}: {why}")
        found: dict[str, Any] = json.loads(file.read_text())
        return found


def estimate_rows(
    arguments: argparse.Namespace,
    alone: SingleProcessStep,
    batches: tuple[Batch, ...],
    options: Options,
    document: Document,
) -> Iterator[Row]:
    """Yield the rows of the table: an estimate for each number of ranks and batch mode, or a measurement."""
    link = LINKS[arguments.network]
    link = replace(
        link,
        bandwidth=arguments.bandwidth or link.bandwidth,
        latency=link.latency if arguments.latency is None else arguments.latency,
    )
    for ranks in arguments.sizes:
        for batch in batches if ranks > 1 else batches[:1]:
            apart = step_seconds(alone, ranks, batch, link)
            here = step_seconds(alone, ranks, batch, link, on_one_machine=True)
            measured = arguments.measure and ranks > 1
            if measured:
                chosen = replace(options, batch=batch)
                outcome, converted = document.convert(chosen)
                if outcome.status != "converted":
                    raise UnusableInputError(f"{arguments.file}: {outcome.status}")
                variables = dict(common_variables(chosen))
                here = time_program(arguments, converted, ranks, variables)["seconds"]
            yield Row(
                ranks,
                batch,
                apart,
                speed_up(alone, apart, ranks, batch),
                here,
                speed_up(alone, here, ranks, batch),
                measured or ranks == 1,
            )


def table_of(rows: list[Row]) -> Table:
    """Return the table with a row per number of ranks and batch mode."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("ranks", "batch", "step", "faster", "step here", "faster here", "here"):
        table.add_column(name, justify="left" if name in ("batch", "here") else "right")
    for row in rows:
        table.add_row(
            str(row.ranks),
            row.batch if row.ranks > 1 else "",
            f"{row.seconds * 1e3:.1f} ms",
            f"{row.gain:.2f} ×",
            f"{row.here_seconds * 1e3:.1f} ms",
            f"{row.here_gain:.2f} ×",
            "measured" if row.measured else "estimated",
        )
    return table


def explain_figures(
    arguments: argparse.Namespace, alone: SingleProcessStep, rows: list[Row]
) -> Iterator[str]:
    """Yield lines that explain the figures of the table."""
    own = arguments.network if arguments.bandwidth is None else "this network"
    yield f"“step”: estimated, for {own} between ranks that have cores or a GPU each. “faster”: examples in the same time."
    busy = alone.cpu_seconds / alone.seconds
    most = max(1.0, alone.cores / busy) if busy else 1.0
    if any(row.ranks > 1 for row in rows):
        yield (
            f"“here”: all ranks share this machine's {alone.cores} cores, of which one process keeps {busy:.1f} busy: "
            f"together they train at most {most:.1f} × as fast, if nothing else runs."
        )
    size = f"Gradients of {alone.bytes / 1e6:.3g} MB are averaged in a step"
    unseen = "How many bytes its gradients have is not seen, so that these are left out"
    yield f"{size if alone.bytes else unseen}; losses and the optimizer's update are not counted."
