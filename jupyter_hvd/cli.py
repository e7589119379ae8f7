"""`jupyter hvd`: parse, call, show."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from .files import (
    Script,
    UnusableInputError,
    read_notebook,
    read_script,
    write_notebook,
    write_script,
)

if TYPE_CHECKING:
    from rich.console import Console

    from .convert import Conversion, Diagnostic, NotebookConversion, Options
    from .launchers.reaper import PrivateFolder
    from .verify import Check

OK, REFUSED, UNUSABLE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    own, extra = split_extra(arguments)
    parser = make_parser()
    options = parser.parse_args(own)
    options.extra = extra
    try:
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except UnusableInputError as error:
        print(f"jupyter hvd: {error}", file=sys.stderr)
        return UNUSABLE
    except BrokenPipeError:
        sys.stderr.close()
        return OK
    except KeyboardInterrupt:
        print("jupyter hvd: interrupted", file=sys.stderr)
        return 130


def split_extra(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before and after a lone `--`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="jupyter hvd",
        description="Turn single-process TensorFlow 2 notebooks and scripts into Horovod programs.",
    )
    parser.add_argument("--version", action="version", version=f"jupyter-hvd {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    convert = commands.add_parser("convert", help="convert notebooks and scripts")
    convert.add_argument("files", nargs="+", type=Path, metavar="FILE")
    convert.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="where to write, instead of NAME_hvd beside the input",
    )
    convert.add_argument("--in-place", action="store_true", help="replace the input")
    convert.add_argument("--diff", action="store_true", help="print what changes, cell by cell")
    convert.add_argument("--check", action="store_true", help="write nothing")
    convert.add_argument(
        "--json", action="store_true", help="print one JSON object about all files"
    )
    add_rule_options(convert)
    convert.set_defaults(command=run_convert)

    run = commands.add_parser(
        "run",
        help="convert, then run on N processes",
        usage="jupyter hvd run FILE -n N [options] [-- ARGS]",
    )
    run.add_argument("file", type=Path, metavar="FILE")
    run.add_argument("-n", type=int, required=True, metavar="N", dest="size", help="how many ranks")
    run.add_argument(
        "-H", "--hosts", metavar="HOSTS", help="host:slots,…; this machine if not given"
    )
    run.add_argument("--timeout", type=float, metavar="S", help="end the job after S seconds")
    add_rule_options(run)
    run.set_defaults(command=run_run)

    verify = commands.add_parser(
        "verify", help="check a conversion by running it on 1 and N processes"
    )
    verify.add_argument("file", type=Path, metavar="FILE")
    verify.add_argument(
        "-n", type=int, default=2, metavar="N", dest="size", help="how many ranks (2)"
    )
    verify.add_argument(
        "--steps", type=int, default=20, metavar="K", help="training steps in each run (20)"
    )
    verify.add_argument(
        "--timeout", type=float, default=300, metavar="S", help="seconds for each run (300)"
    )
    verify.add_argument(
        "--beside", type=Path, metavar="FOLDER", help="whose files the program sees (FILE's own)"
    )
    verify.add_argument("--json", action="store_true", help="print one JSON object")
    verify.add_argument(
        "--events",
        action="store_true",
        help="print one JSON object per line as checks begin and end",
    )
    add_rule_options(verify)
    verify.set_defaults(command=run_verify)

    rule = commands.add_parser("rule", help="list the rules, or explain one")
    rule.add_argument("code", nargs="?", metavar="CODE")
    rule.set_defaults(command=run_rule)

    doctor = commands.add_parser("doctor", help="what is installed, and whether it fits together")
    doctor.set_defaults(command=run_doctor)
    return parser


def add_rule_options(parser: argparse.ArgumentParser) -> None:
    """What `Options` holds; None where nothing is said, so that a project's settings show through."""
    add = parser.add_argument
    add("--select", type=codes, metavar="CODES", help="use these rules only: HVD2,HVD301")
    add("--ignore", type=codes, metavar="CODES", help="leave these rules out")
    add(
        "--target",
        choices=("keras2", "tf_keras"),
        help="the Keras to run on; the one installed if not given",
    )
    add("--compression", choices=("none", "fp16"), help="send gradients in half precision")
    add("--warmup-epochs", type=int, metavar="E", help="let fit reach the full rate after E epochs")
    add(
        "--backward-passes-per-step",
        type=int,
        metavar="K",
        help="let fit average after every K batches",
    )
    add(
        "--standalone",
        action=argparse.BooleanOptionalAction,
        help="write what the program needs of jupyter_hvd.runtime into it",
    )


def codes(text: str) -> tuple[str, ...]:
    return tuple(code.strip() for code in text.split(",") if code.strip())


def options_for(arguments: argparse.Namespace, path: Path) -> Options:
    """The options for a file: those of the command line go before those of its project."""
    from dataclasses import fields

    from .convert import OptionError, Options

    given = {field.name: getattr(arguments, field.name, None) for field in fields(Options)}
    try:
        return Options.resolve({n: v for n, v in given.items() if v is not None}, path)
    except OptionError as error:
        option = error.name.replace("_", "-")
        raise UnusableInputError(f"--{option}: {error.problem}") from None


# convert


@dataclass(frozen=True)
class Converted:
    """One input file with its outcome and how to write it."""

    path: Path
    outcome: Conversion | NotebookConversion
    before: list[str]
    after: list[str]
    write: Callable[[Path], None]


def convert_file(path: Path, options: Options) -> Converted:
    """Read a file and convert it.

    Raises:
        UnusableInputError: it is no notebook or script that could be converted.
    """
    from .convert import NotPythonError, convert_notebook, convert_source

    if path.suffix == ".ipynb":
        notebook = read_notebook(path)
        try:
            conversion = convert_notebook(notebook, options=options)
        except NotPythonError as error:
            raise UnusableInputError(f"{path}: {error}") from None
        return Converted(
            path,
            conversion,
            [cell.source for cell in notebook.cells],
            [cell.source for cell in conversion.notebook.cells],
            lambda output: write_notebook(output, conversion.notebook),
        )
    if path.suffix == ".py" or (path.is_file() and not path.suffix):
        script = read_script(path)
        converted = convert_source(script.source, options=options)
        return Converted(
            path,
            converted,
            [script.source],
            [converted.code],
            lambda output: write_script(output, Script(converted.code, script.encoding)),
        )
    if not path.exists():
        raise UnusableInputError(f"{path}: there is no such file")
    raise UnusableInputError(f"{path}: neither a notebook (.ipynb) nor a script (.py)")


def run_convert(arguments: argparse.Namespace) -> int:
    if arguments.output is not None and arguments.in_place:
        raise UnusableInputError("-o and --in-place exclude each other")
    if arguments.output is not None and len(arguments.files) > 1 and not arguments.output.is_dir():
        raise UnusableInputError(
            f"{arguments.output}: to convert several files, name a folder that exists"
        )
    console, errors = make_consoles(arguments.json)
    files: list[dict[str, Any]] = []
    code = OK
    for path in arguments.files:
        try:
            converted = convert_file(path, options_for(arguments, path))
            output = None
            if converted.outcome.status == "converted" and not arguments.check:
                output = output_path(path, arguments)
                converted.write(output)
        except UnusableInputError as error:
            print(f"jupyter hvd: {error}", file=sys.stderr)
            files.append(invalid_as_json(path, str(error)))
            code = UNUSABLE
            continue
        outcome = converted.outcome
        files.append(
            {"path": str(path), **outcome.as_json(), "output": str(output) if output else None}
        )
        if outcome.status == "invalid":
            code = UNUSABLE
        elif outcome.status == "refused" and code != UNUSABLE:
            code = REFUSED
        if not arguments.json:
            if arguments.diff:
                print_diff(console, converted)
            print_outcome(errors, converted, output)
    if arguments.json:
        print(json.dumps({"files": files}, indent=2, ensure_ascii=False))
    return code


def output_path(path: Path, arguments: argparse.Namespace) -> Path:
    """Where a conversion is written; never over a file that somebody else wrote, unless it is named."""
    if arguments.in_place:
        return path
    if arguments.output is not None:
        output: Path = arguments.output
        return output / path.name if output.is_dir() else output
    beside = path.with_name(f"{path.stem}_hvd{path.suffix}")
    if beside.exists() and not is_own_output(beside):
        raise UnusableInputError(
            f"{beside}: is there already and not from jupyter hvd; choose another place with -o"
        )
    return beside


def is_own_output(path: Path) -> bool:
    from .convert.rules.imports import MARK

    return MARK in path.read_text(errors="replace")


def invalid_as_json(path: Path, message: str) -> dict[str, Any]:
    diagnostic = {
        "code": "HVD001",
        "severity": "error",
        "cell": None,
        "line": 1,
        "column": 1,
        "message": message,
        "help": "",
    }
    return {
        "path": str(path),
        "status": "invalid",
        "training_loop": "none",
        "output": None,
        "changes": [],
        "diagnostics": [diagnostic],
    }


def make_consoles(quiet: bool) -> tuple[Console, Console]:
    from rich.console import Console

    return Console(quiet=quiet, highlight=False), Console(stderr=True, quiet=quiet, highlight=False)


def print_diff(console: Console, converted: Converted) -> None:
    """A unified diff for each changed cell, or for the script."""
    from difflib import unified_diff

    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for index, (before, after) in enumerate(zip(converted.before, converted.after, strict=True)):
        if before == after:
            continue
        where = f"{converted.path}" + (
            f", cell {index}" if converted.path.suffix == ".ipynb" else ""
        )
        lines = unified_diff(
            before.splitlines(), after.splitlines(), where, f"{where}, for Horovod", lineterm=""
        )
        for line in lines:
            style = "bold" if line.startswith(("---", "+++")) else styles.get(line[:1], "")
            console.print(Text(line, style=style), soft_wrap=True)


def print_outcome(console: Console, converted: Converted, output: Path | None) -> None:
    """One line a diagnostic, then one line about the file."""
    from rich.text import Text

    outcome, path = converted.outcome, converted.path
    print_diagnostics(console, path, outcome.diagnostics)
    count = len(outcome.changes)
    summary = {
        "converted": f"{count} change{'s' * (count != 1)}"
        + (f", written to {output}" if output else ""),
        "unchanged": "no TensorFlow training to distribute"
        if not outcome.diagnostics
        else "nothing changed",
        "refused": "refused, nothing written",
        "invalid": "not converted",
    }[outcome.status]
    console.print(Text(f"{path}: {summary}"), soft_wrap=True)


def print_diagnostics(console: Console, path: Path, diagnostics: Sequence[Diagnostic]) -> None:
    from rich.text import Text

    styles = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}
    for diagnostic in diagnostics:
        cell = "" if diagnostic.cell is None else f"cell {diagnostic.cell}:"
        text = Text.assemble(
            (f"{path}:{cell}{diagnostic.line}:{diagnostic.column}: ", "bold"),
            (diagnostic.code, styles[diagnostic.severity]),
            f" {diagnostic.message}",
            (f"\n    {diagnostic.help}" if diagnostic.help else "", "dim"),
        )
        console.print(text, soft_wrap=True)


# run


@contextmanager
def converted_copy(path: Path, options: Options) -> Iterator[tuple[Path, PrivateFolder]]:
    """A converted copy of a file, in a folder of its own that goes with the block.

    Raises:
        UnusableInputError: the file cannot be converted.
    """
    from .launchers.reaper import private_folder

    converted = convert_file(path, options)
    if converted.outcome.status not in ("converted", "unchanged"):
        _, errors = make_consoles(False)
        print_outcome(errors, converted, None)
        raise RefusedError(converted.outcome.status)
    with private_folder() as folder:
        copy = folder.path / f"{path.stem}_hvd{path.suffix or '.py'}"
        converted.write(copy)
        yield copy, folder


class RefusedError(Exception):
    """A file was refused; its diagnostics have been printed."""


def run_run(arguments: argparse.Namespace) -> int:
    from .launchers.hosts import LaunchError, hosts_for
    from .launchers.job import Program, run_job
    from .launchers.signals import ended_by_signals

    console, errors = make_consoles(False)
    options = options_for(arguments, arguments.file)
    try:
        hosts_for(arguments.size, arguments.hosts)  # refused before anything is done
        with ended_by_signals(), converted_copy(arguments.file, options) as (copy, folder):
            result = run_job(
                Program(copy, arguments.file, arguments.extra),
                arguments.size,
                folder,
                hosts=arguments.hosts,
                timeout=arguments.timeout,
                listener=tagged_printer(console, errors),
            )
    except LaunchError as error:
        raise UnusableInputError(str(error)) from None
    except RefusedError as error:
        return UNUSABLE if str(error) == "invalid" else REFUSED
    if result.code != 0:
        who = "the job" if result.rank is None else f"rank {result.rank}"
        errors.print(f"[bold red]{who} failed with exit code {result.code}[/]")
        if result.report:
            print(result.report.rstrip(), file=sys.stderr)
    return result.code


RANK_STYLES = ("cyan", "green", "magenta", "yellow", "blue", "red")


def tagged_printer(console: Console, errors: Console) -> Callable[[int | None, str, str], None]:
    """Prints each line of output behind its rank."""
    from rich.text import Text

    def show(rank: int | None, stream: str, line: str) -> None:
        tag = "" if rank is None else f"[{rank}] "
        style = "dim" if rank is None else RANK_STYLES[rank % len(RANK_STYLES)]
        target = errors if stream == "stderr" else console
        target.print(Text.assemble((tag, style), Text.from_ansi(line)), soft_wrap=True)

    return show


# verify


def run_verify(arguments: argparse.Namespace) -> int:
    from .convert import NotPythonError
    from .launchers.hosts import LaunchError
    from .launchers.signals import ended_by_signals
    from .verify import verify

    console, errors = make_consoles(arguments.json or arguments.events)
    options = options_for(arguments, arguments.file)
    quiet = arguments.json or arguments.events  # a live display would take the stream from them
    with (
        ended_by_signals(),
        nullcontext() if quiet else console.status("reading the file") as status,
    ):

        def listen(check: Check) -> None:
            if arguments.events:
                print(json.dumps(check.as_json()), flush=True)
            elif status is None:
                return
            elif check.status == "running":
                status.update(f"{check.check}: {check.detail} …")
            else:
                print_check(console, check)

        try:
            verification = verify(
                arguments.file,
                arguments.size,
                steps=arguments.steps,
                timeout=arguments.timeout,
                options=options,
                beside=arguments.beside,
                listener=listen,
            )
        except (LaunchError, NotPythonError) as error:
            raise UnusableInputError(str(error)) from None
    if arguments.events:
        print(json.dumps({"done": True, **verification.as_json()}), flush=True)
    elif arguments.json:
        print(json.dumps(verification.as_json(), indent=2, ensure_ascii=False))
    elif not verification.checks:
        print_diagnostics(errors, arguments.file, verification.conversion.diagnostics)
        console.print(
            f"{arguments.file}: {verification.conversion.status}, there is no conversion to verify"
        )
    else:
        console.print(
            "The conversion holds." if verification.holds else "The conversion does not hold."
        )
    if verification.conversion.status == "invalid":
        return UNUSABLE
    unchanged = verification.conversion.status == "unchanged"
    return OK if verification.holds or unchanged else REFUSED


def print_check(console: Console, check: Check) -> None:
    from rich.text import Text

    marks = {
        "pass": ("✓", "green"),
        "fail": ("✗", "bold red"),
        "unknown": ("?", "yellow"),
        "running": ("…", "dim"),
    }
    console.print(
        Text.assemble(marks[check.status], f" {check.check:<25} {check.detail}"), soft_wrap=True
    )


# rule


def run_rule(arguments: argparse.Namespace) -> int:
    from rich.table import Table

    from .convert.rules import BY_CODE, RULES

    console, _ = make_consoles(False)
    if arguments.code is None:
        table = Table("code", "rule", "why", box=None, pad_edge=False)
        for rule in RULES:
            table.add_row(rule.code, rule.name, rule.message)
        console.print(table)
        return OK
    if arguments.code.upper() not in BY_CODE:
        raise UnusableInputError(
            f"{arguments.code}: there is no such rule; `jupyter hvd rule` lists all"
        )
    from rich.markdown import Markdown

    from .convert.documentation import rule_page

    console.print(Markdown(rule_page(BY_CODE[arguments.code.upper()])))
    return OK


# doctor


def run_doctor(_: argparse.Namespace) -> int:
    from .doctor import examine, show

    return OK if show(make_consoles(False)[0], examine()) else REFUSED


if __name__ == "__main__":
    sys.exit(main())
