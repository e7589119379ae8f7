"""Runs one rank of a job: `python -m jupyter_hvd.rank.batch PROGRAM STATUS_DIR ORIGINAL [ARGS]`.

A notebook's cells run one after the other in an IPython shell, as in a kernel. How
the rank ended is left in the status folder, since `horovodrun` answers 1 to every
failure and lets every rank print a traceback of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
import types
from pathlib import Path
from typing import Any


def main(program: Path, status: Path, original: Path, args: list[str]) -> int:
    rank = int(os.environ.get("HOROVOD_RANK", "0"))
    sys.argv = [str(original), *args]
    sys.path[0] = str(original.resolve().parent)
    code, report = 0, ""
    probe = _probe()
    try:
        if program.suffix == ".ipynb":
            code, report = run_notebook(program, quiet=rank != 0)
        else:
            run_script(program, original)
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        report = stop.code if isinstance(stop.code, str) else ""
    except KeyboardInterrupt:
        code, report = 130, "interrupted"
    except BaseException as error:
        code, report = 1, _traceback(error)
    if probe is not None:
        probe.finish()
    sys.stdout.flush()
    sys.stderr.flush()
    ending = {
        "rank": rank,
        "code": code,
        "report": report,
        "time": time.time(),
        "host": os.uname().nodename,
    }
    (status / f"rank-{rank}.json").write_text(json.dumps(ending))
    return code


def _probe() -> Any:
    """What `jupyter hvd verify` watches this rank with, None in an ordinary job."""
    if "JUPYTER_HVD_PROBE" not in os.environ:
        return None
    from ..verify.probe import from_environment

    return from_environment()


def run_script(program: Path, original: Path) -> None:
    """Run the converted text as the original script: as `__main__`, with its `__file__`."""
    code = compile(program.read_bytes(), str(program), "exec")
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(original), __builtins__=__builtins__)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102 — the user's own program is what is to be run


def _traceback(error: BaseException) -> str:
    """The traceback from the user's own first line on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def run_notebook(program: Path, *, quiet: bool) -> tuple[int, str]:
    """Run the code cells in order; stop at the first that fails.

    Args:
        quiet: show no values of last expressions and no rich display; rank 0's are enough.

    Returns:
        the exit code and, for a failure, the report with the cell and the traceback.
    """
    import nbformat
    from IPython.core.interactiveshell import InteractiveShell

    class RankShell(InteractiveShell):  # type: ignore[misc]
        def enable_gui(self, gui: str | None = None) -> None:
            """No event loop: `%matplotlib inline` has nothing to start here."""

    shell: Any = RankShell.instance(colors="nocolor")
    shell.showtraceback = lambda *_, **__: None
    shell.showsyntaxerror = lambda *_, **__: None
    if quiet:
        shell.display_pub.publish = lambda *_, **__: None
        shell.displayhook.write_output_prompt = lambda: None
        shell.displayhook.write_format_data = lambda *_: None
        shell.displayhook.finish_displayhook = lambda: None
        shell.system = _system_quietly
    notebook = nbformat.read(program, as_version=4)
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        result = shell.run_cell(cell.source, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        if isinstance(error, SystemExit):
            raise error
        if error is not None:
            return 1, f"in cell {index}:\n{_cell_traceback(shell, error)}"
    return 0, ""


def _system_quietly(command: str) -> None:
    """A `!` line on a rank that is not shown: it runs, as on rank 0, and says nothing."""
    subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, check=False)  # noqa: S602 — the user's own line


def _cell_traceback(shell: Any, error: BaseException) -> str:
    lines = shell.InteractiveTB.structured_traceback(
        type(error), error, error.__traceback__, tb_offset=1
    )
    return str(shell.InteractiveTB.stb2text(lines))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
