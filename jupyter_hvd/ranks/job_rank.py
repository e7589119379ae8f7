"""Runs one rank of a job: `python -m jupyter_hvd.ranks.job_rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`.

A notebook's cells run one after the other in an IPython shell, as in a kernel. How
the rank ended is left in the status folder, so that one rank
is blamed for a failure that all of them report.
"""

from __future__ import annotations

import ast
import json
import os
import pdb
import sys
import time
import traceback
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..files import is_notebook, write_atomically
from ..launch.base import status_file
from ..launch.heartbeat import HeartbeatClient
from ..launch.rank_location import list_threads, own_files
from ..launch.start_faults import JOINED
from ..launch.temporary_files import note_temporary_files
from ..runtime.observe import Function, observe
from .shell_lines import ShellLines

#: Said at a rank's first breakpoint.
PASSED_OVER = (
    "breakpoint() is passed over: the ranks of a job have no input. In a notebook, a cell with %%distribute stops there, "
    "on the rank that `%hvd debug RANK` chooses."
)


@dataclass(frozen=True)
class ObservedText:
    """Edits a program's syntax tree before it runs, so that it can be observed.

    Attributes:
        edit: is given the tree of the program or of a cell, and its file; lines stay where they are.
        names: global names that the edited text uses.
    """

    edit: Callable[[ast.Module, str], ast.Module]
    names: Mapping[str, Any]


def run_program(
    program: Path,
    status: Path,
    original: Path,
    args: list[str],
    finish: Callable[[], None] | None,
    explain: Callable[[str], str] = str,
    observed: ObservedText | None = None,
) -> int:
    """Run a program as the original would run; return its exit code and write the status file.

    Args:
        finish: called when the program has ended for any reason.
        explain: turns a traceback into the user's report.
        observed: see `ObservedText`.
    """
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    pass_over_breakpoints()
    sys.argv = [str(original), *args]
    sys.path.insert(0, str(original.resolve().parent))
    code, report = 0, ""
    try:
        if is_notebook(program):
            code, report = run_notebook(program, status, quiet=rank != 0, observed=observed)
        else:
            run_script(program, original, observed)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        report = stop.code if isinstance(stop.code, str) else ""
    except KeyboardInterrupt:
        code, report = 130, "interrupted"
    except BaseException as error:
        code, report = 1, _user_traceback(error)
    report = explain(report)
    if code and not hasattr(sys, "last_value"):  # as where no one catches it; the guard looks there
        sys.last_value = RuntimeError(report)
    if finish is not None:
        finish()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the program may have closed it
            stream.flush()
    ending = {
        "rank": rank,
        "code": code,
        "report": report,
        "time": time.time(),
        "host": os.uname().nodename,
    }
    # Whole or not at all: who is killed here is one that could not say how it ended.
    write_atomically(status_file(status, rank), json.dumps(ending).encode())
    return code


def pass_over_breakpoints() -> None:
    """Let `breakpoint()` and `pdb.set_trace()` do nothing, because a job has no input; the first one says so."""
    has_said = os.environ.get("PYTHONBREAKPOINT") == "0"

    def pass_over(*_: object, **__: object) -> None:
        nonlocal has_said
        if not has_said:
            has_said = True
            sys.stderr.write(f"{PASSED_OVER}\n")

    sys.breakpointhook = pdb.set_trace = pass_over


def hold_heartbeat() -> None:
    """Connect to the process that started the job; this process ends when the connection breaks."""
    note_temporary_files()
    rank = os.environ.get("HOROVOD_RANK", "0")
    held = HeartbeatClient(f"rank {rank}")
    with suppress(ImportError):
        record_horovod_threads(held)


def record_horovod_threads(heartbeats: HeartbeatClient) -> None:
    """Record the threads that Horovod starts at `init`, since they are busy even if the rank is idle.

    After this call, `hvd.init` also checks that all ranks have joined.
    """
    from horovod.common.basics import HorovodBasics

    def init_horovod(begin: Function, /, *args: Any, **kwargs: Any) -> Any:
        before = list_threads()
        result = begin(*args, **kwargs)
        heartbeats.busy_threads = list_threads() - before
        heartbeats.send_message({"stage": JOINED})
        if not (kwargs.get("comm") or args[1:2]):  # all ranks, and none that are chosen
            require_all_ranks(args[0].size())
        return result

    observe(HorovodBasics, "init", init_horovod)


def require_all_ranks(size: int) -> None:
    """Check that all started ranks take part in the job, not each one alone.

    Raises:
        RuntimeError: mpirun belongs to another MPI than Horovod's.
    """
    started = os.environ.get("HOROVOD_SIZE")
    if os.environ.get("HOROVOD_CONTROLLER") == "mpi" and str(size) != started:
        raise RuntimeError(
            f"mpirun has started {started} ranks, of which Horovod sees {size}: it was built with another MPI; "
            "`jupyter hvd install --mpi` rebuilds it"
        )


def run_script(program: Path, original: Path, observed: ObservedText | None = None) -> None:
    """Run the converted text as the original script: as `__main__`, with its `__file__`."""
    own_files[str(program)] = ""
    tree = ast.parse(program.read_bytes(), str(program))
    if observed is not None:
        tree = observed.edit(tree, str(program))
    code = compile(tree, str(program), "exec")
    module = types.ModuleType("__main__")
    if observed is not None:
        module.__dict__.update(observed.names)
    module.__dict__.update(__file__=str(original), __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102 — the user's own program is what is to be run


def _user_traceback(error: BaseException) -> str:
    """Return the formatted traceback from the first frame of the user's program on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def run_notebook(
    program: Path, status: Path, *, quiet: bool, observed: ObservedText | None = None
) -> tuple[int, str]:
    """Run the code cells in order; stop at the first that fails.

    Args:
        status: a folder that all ranks of the job see.
        quiet: show no values of last expressions and no rich display, since rank 0 does.
        observed: see `ObservedText`.

    Returns:
        The exit code and, for a failure, the report with the cell and the traceback.
    """
    from IPython.core.interactiveshell import InteractiveShell

    from .magic_output import make_quiet

    class RankShell(InteractiveShell):  # type: ignore[misc]
        def enable_gui(self, gui: str | None = None) -> None:
            """Do nothing: `%matplotlib inline` needs no event loop here."""

    shell: Any = RankShell.instance(colors="nocolor")
    if quiet:
        shell.display_pub.publish = lambda *_, **__: None
        shell.displayhook.write_output_prompt = lambda: None
        shell.displayhook.write_format_data = lambda *_: None
        shell.displayhook.finish_displayhook = lambda: None
    make_quiet(shell)
    shell.quiet_magics = quiet
    ShellLines(shell, status, quiet=quiet).install()
    cells = code_cells(program)
    code_name, index, file = shell.compile.get_code_name, 0, ""

    def open_remembered(*args: Any) -> str:
        nonlocal file
        name: str = code_name(*args)
        own_files[name] = str(index)
        file = name
        return name

    shell.compile.get_code_name = open_remembered
    if observed is not None:
        shell.user_ns.update(observed.names)
        shell.ast_transformers.append(
            types.SimpleNamespace(visit=lambda tree: observed.edit(tree, file))
        )
    for index, source in cells:
        result = shell.run_cell(source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, SystemExit):
            raise error
        if error is not None:
            return 1, f"in cell {index}:\n{_cell_traceback(shell, error)}"
    return 0, ""


def code_cells(program: Path) -> list[tuple[int, str]]:
    """Return index and text of each non-empty code cell, of a notebook of version 4.

    Importing `nbformat` would take a second on each rank.
    """
    cells = json.loads(program.read_bytes())["cells"]
    texts = [
        (n, "".join(cell["source"])) for n, cell in enumerate(cells) if cell["cell_type"] == "code"
    ]
    return [(number, text) for number, text in texts if text.strip()]


def _cell_traceback(shell: Any, error: BaseException) -> str:
    """Return a traceback as IPython prints it."""
    lines = shell.InteractiveTB.structured_traceback(
        type(error), error, error.__traceback__, tb_offset=1
    )
    return str(shell.InteractiveTB.stb2text(lines))


def run_arguments(
    arguments: list[str],
    finish: Callable[[], None] | None = None,
    explain: Callable[[str], str] = str,
    observed: ObservedText | None = None,
) -> int:
    """Run the arguments that follow the module's name on the command line."""
    program, status, original, *args = arguments
    return run_program(Path(program), Path(status), Path(original), args, finish, explain, observed)


def main() -> int:
    """Run the program that the command line names, and return its exit code."""
    hold_heartbeat()
    return run_arguments(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
