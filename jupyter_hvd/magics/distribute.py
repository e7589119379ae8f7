"""The magics `%%distribute`, `%%rank` and `%hvd`. Parse, call, show.

What does the work is imported when it is used, so that `%load_ext jupyter_hvd` is instant.
"""

from __future__ import annotations

import atexit
import json
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from ..launch.arguments import add_place_options, where_of
from ..launch.diagnosis import align_columns
from .parser import MagicParser

if TYPE_CHECKING:
    from ..notebook.distribute import Session
    from ..notebook.network import Network
    from ..runtime.sharing.random_state import RandomState

#: Stands for the number of the cell that runs, which IPython tells when it has ended.
CURRENT = 0
COMMANDS = (
    *("status", "where", "vars", "debug", "network"),
    *("start", "pull", "push", "restart", "stop"),
)
PLACES = ("-n", "-H", "--launcher", "--time", "--partition", "--salloc")
OPTIONS = (*PLACES, "--batch", "--data", "--show", "--dry-run", "--no-deps", "--timeout")


def distribute_parser() -> MagicParser:
    """Create the parser of `%%distribute`."""
    parser = MagicParser(
        prog="%%distribute",
        description="Convert this cell and run it on N ranks.",
    )
    parser.add_argument("-n", type=int, metavar="N", help="how many ranks; those there are, or 2")
    add_place_options(parser)
    add_batch(parser)
    parser.add_argument(
        "--data",
        choices=("each", "rank0", "augment"),
        help="for this cell: every rank reads all data, rank 0 reads datasets for all ranks, or each rank draws the random "
        "numbers of a dataset's maps for its own rows only",
    )
    parser.add_argument("--show", action="store_true", help="show what the conversion changes, too")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would change and run; run nothing"
    )
    parser.add_argument(
        "--no-deps", action="store_true", help="run this cell alone, none that it needs"
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="stop the cell after S seconds")
    return parser


def add_batch(parser: MagicParser) -> None:
    """Add the option `--batch`."""
    parser.add_argument(
        "--batch",
        choices=("per-rank", "global"),
        help="per-rank: the ranks share batches N times as large, at N times the learning rate; global: they share the kernel's "
        "batches, with its result; that of the ranks there are, or of the settings, if not given",
    )


def rank_parser() -> MagicParser:
    """Create the parser of `%%rank`."""
    parser = MagicParser(
        prog="%%rank", description="Run this cell on some ranks, as it is written."
    )
    parser.add_argument(
        "ranks",
        nargs="+",
        type=rank_numbers,
        metavar="RANKS",
        help="numbers and ranges, as 0,2 or 1-3; or all",
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="stop the cell after S seconds")
    return parser


def rank_numbers(text: str) -> set[int] | None:
    """Parse ranks such as `0,2`, `1-3` or, as other libraries write it, `[0,2]`; None for `all`.

    Raises:
        ArgumentTypeError: the text has another form.
    """
    if text == "all":
        return None
    found = set[int]()
    for part in filter(None, text.removeprefix("[").removesuffix("]").split(",")):
        numbers = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if numbers is None:
            raise ArgumentTypeError(
                f"{part!r} is neither the number of a rank, nor a range such as 1-3, nor all"
            )
        found |= {*range(int(numbers[1]), int(numbers[2] or numbers[1]) + 1)}
    return found


def hvd_parser() -> MagicParser:
    """Create the parser of `%hvd`."""
    parser = MagicParser(prog="%hvd", description="Look after the ranks.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("names", nargs="*", metavar="NAME", help="debug: the rank that stops")
    parser.add_argument("-n", type=int, metavar="N", help="start: how many ranks; 2")
    add_place_options(parser)
    add_batch(parser)
    return parser


@magics_class
class HvdMagics(Magics):  # type: ignore[misc]
    """`%%distribute`, `%%rank` and `%hvd`."""

    @cached_property
    def session(self) -> Session:
        """The kernel's `Session`, created on first use; its ranks are ended when the kernel exits."""
        from ..notebook.distribute import Session

        session = Session(self.shell)
        session.history.failed |= self.failed
        session.drawn = self.drawn
        atexit.register(session.held.end)
        return session

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self.failed: set[int] = set()
        self.drawn: dict[int, RandomState] = {}
        self.last_drawn: RandomState | None = None

    def panel_state(self, rank: int | None, wants_variables: bool) -> dict[str, Any]:
        """Return the state of the ranks that a panel shows; called from another thread than the one that runs cells.

        Raises:
            DistributeError: there are no ranks.
        """
        from ..notebook.errors import DistributeError

        if "session" not in self.__dict__:
            raise DistributeError("no cell with %%distribute has run")
        return self.session.panel_state(rank, wants_variables)

    def note_start(self, _: Any) -> None:
        """Store the random state with which a cell begins: ranks that share each batch start the cell with it, too."""
        from ..runtime.sharing.random_state import random_state

        self.drawn.pop(CURRENT, None)
        with suppress(AttributeError, ImportError):  # of a TensorFlow that has other names
            self.drawn[CURRENT] = random_state().share_keys(self.last_drawn)
            self.last_drawn = self.drawn[CURRENT]

    def note_end(self, result: Any) -> None:
        """Note which cells failed, since no other cell can need them."""
        if result.execution_count is not None and CURRENT in self.drawn:
            self.drawn[result.execution_count] = self.drawn[CURRENT]
        if not result.success and result.execution_count is not None:
            self.failed.add(result.execution_count)
            if "session" in self.__dict__:
                self.session.history.failed |= self.failed

    @cell_magic  # type: ignore[untyped-decorator]
    def distribute(self, line: str, cell: str) -> None:
        """Convert this cell and run it on N ranks that live on between cells: `%%distribute --help`."""
        from ..notebook.distribute import Request

        arguments = distribute_parser().parse_line(line)
        request = Request(
            arguments.n,
            where_of(arguments),
            arguments.show,
            arguments.dry_run,
            not arguments.no_deps,
            arguments.timeout,
            arguments.batch,
            arguments.data,
        )
        self.session.distribute_cell(request, line, cell)

    @cell_magic  # type: ignore[untyped-decorator]
    def rank(self, line: str, cell: str) -> None:
        """Run this cell on some of the living ranks, as it is written: `%%rank 0,2`, `%%rank all`."""
        arguments = rank_parser().parse_line(line)
        everywhere = None in arguments.ranks
        ranks = sorted(rank for each in arguments.ranks if each is not None for rank in each)
        if not everywhere and not ranks:
            raise UsageError("%%rank: which ranks?")
        self.session.run_on(
            None if everywhere else [*dict.fromkeys(ranks)], line, cell, arguments.timeout
        )

    @line_magic  # type: ignore[untyped-decorator]
    def hvd(self, line: str) -> None:
        """Manage the ranks: `status`, `where`, `vars`, `debug`, `network`, `start`, `pull`, `push`, `restart`, `stop`."""
        from ..notebook import cell_inputs
        from ..notebook.inspection import status_rows

        arguments = hvd_parser().parse_line(line, default="status")
        if arguments.command in ("pull", "push"):
            if not arguments.names:
                raise UsageError(f"%hvd {arguments.command}: which names?")
            move_values = (
                cell_inputs.pull_named if arguments.command == "pull" else cell_inputs.push_named
            )
            move_values(self.session.held, arguments.names)
        elif arguments.command == "start":
            self.session.start_ranks(arguments.n, where_of(arguments), arguments.batch)
        elif arguments.command == "stop":
            self.session.held.end()
            print("no ranks")
        elif arguments.command == "where":
            print("\n".join(self.session.rank_positions()))
        elif arguments.command == "debug":
            self._choose_debug_rank(arguments.names)
        elif arguments.command == "network":
            show_network(self.session.measure_network())
        elif arguments.command == "vars":
            display(self.session.compare_variables(arguments.names))
        elif arguments.command == "restart":
            self.session.restart_ranks()
        else:
            cluster = self.session.held.cluster
            show_status(status_rows(cluster) if cluster is not None else [])

    def _choose_debug_rank(self, words: list[str]) -> None:
        """Choose the rank that stops at breakpoints, if one is given, and print which one does.

        Raises:
            UsageError: that is no rank.
        """
        if len(words) > 1 or not all(re.fullmatch(r"[0-9]{1,5}", word) for word in words):
            raise UsageError("%hvd debug: which rank? A number, as in `%hvd debug 1`")
        if words:
            self.session.choose_debug_rank(int(words[0]))
        print(f"breakpoint() stops on rank {self.session.debug_rank}")


def show_network(network: Network) -> None:
    """Print bandwidth and latency, and measured times of allreduce beside those that they predict."""
    print(
        f"{network.ranks} ranks: bandwidth {network.bandwidth / 1e9:.3g} GB/s, latency {network.latency * 1e6:.3g} µs"
    )
    for size, seconds in network.times:
        print(
            f"  {size / 1024:>8g} KiB  allreduce {seconds * 1e3:8.3f} ms  "
            f"by these figures {network.allreduce_seconds(size) * 1e3:8.3f} ms"
        )


def measured(shell: Any) -> str:
    """Measure the network between the ranks for the panel; return JSON, with why it is unknown in `message`."""
    from ..notebook.errors import DistributeError

    magics = shell.magics_manager.registry.get("HvdMagics")
    try:
        if magics is None:
            raise DistributeError("there are no ranks: `%load_ext jupyter_hvd`, then `%hvd start`")
        return json.dumps(asdict(magics.session.measure_network()))
    except DistributeError as error:
        return json.dumps({"message": str(error)})


def show_status(rows: list[dict[str, Any]]) -> None:
    """Print the table of `%hvd status`."""
    if not rows:
        print("no ranks; a cell with %%distribute starts them")
        return
    table: list[tuple[str, ...]] = [("rank", "host", "pid", "device", "memory", "doing")]
    for row in rows:
        memory = f"{row['memory'] / 2**20:.0f} MB" if "memory" in row else ""
        table.append(
            (
                *(str(row.get(key, "")) for key in ("rank", "host", "pid", "device")),
                memory,
                str(row["doing"]),
            )
        )
    print("\n".join(align_columns(table)))


def complete_line(line: str, names: Iterable[str]) -> list[str]:
    """Return the completions for a line with one of our magics: commands, options, names in the notebook."""
    magic, *words = [*line.split(), *([""] if line[-1:].isspace() else [])] or [""]
    if magic == "%%distribute" and words:
        return list(OPTIONS)
    if magic in ("%hvd", "hvd") and len(words) == 1:
        return list(COMMANDS)
    if magic in ("%hvd", "hvd") and words and words[0] == "start":
        return [*PLACES, "--batch"]
    if magic in ("%hvd", "hvd") and words and words[0] in ("pull", "push", "vars"):
        return sorted(names)
    return []


def make_completer(shell: Any) -> Any:
    """Create a matcher for the Tab key that completes only our magics' lines, without Python's words."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def jupyter_hvd(context: CompletionContext) -> SimpleMatcherResult:
        names = (n for n in shell.user_ns if n[0] != "_" and n not in shell.user_ns_hidden)
        fitting = [
            w
            for w in complete_line(context.text_until_cursor, names)
            if w.startswith(context.token)
        ]
        completions = [SimpleCompletion(word) for word in fitting]
        return SimpleMatcherResult(completions=completions, suppress=bool(fitting), ordered=True)

    return jupyter_hvd


def load_magics(shell: Any) -> None:
    """Register the magics, their completions, and the callbacks that record cells."""
    magics = HvdMagics(shell)
    shell.register_magics(magics)
    shell.events.register("pre_run_cell", magics.note_start)
    shell.events.register("post_run_cell", magics.note_end)
    shell.Completer.custom_matchers.append(make_completer(shell))
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        from ..notebook.control_channel import register_panel_handler

        register_panel_handler(kernel, magics.panel_state)
