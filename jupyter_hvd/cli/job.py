"""`jupyter hvd job`."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..convert.conversion_limit import conversion_limit
from ..convert.documents import Script, load_document
from ..files import UnusableInputError, write_atomically
from .codes import OK, REFUSED, UNUSABLE
from .options import add_batch, add_options, options_for
from .show import make_consoles, print_outcome

#: What a container is called where nobody says it.
IMAGE = "{}:latest"


def add_parser(commands: Any) -> None:
    """Add the command `job`."""
    parser = commands.add_parser(
        "job",
        help="write the files of a batch job: for Slurm, or for Kubernetes",
        usage="jupyter hvd job FILE (--slurm | --kubernetes) -n N [-o FOLDER] [options] [-- ARGS]",
        description="Write the stand-alone program and what runs it elsewhere. Nothing is sent anywhere.",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--slurm", action="store_true", help="a batch script for sbatch")
    kind.add_argument(
        "--kubernetes",
        action="store_true",
        help="manifests for Kubeflow's MPIJob and TrainJob, and the recipe of their container",
    )
    add("-n", type=int, required=True, metavar="N", dest="size", help="how many ranks")
    add("-o", "--output", type=Path, metavar="FOLDER", help="where to write; beside FILE")
    add("--force", action="store_true", help="write over files that are there")
    add("--time", metavar="LIMIT", help="Slurm: the time limit, 2:00:00")
    add("--partition", metavar="NAME", help="Slurm: which partition")
    add("--sbatch", metavar="OPTIONS", help="Slurm: more options, --sbatch='--gpus-per-task=1'")
    add("--python", metavar="PATH", help="Slurm: the Python on the nodes; this one")
    add("--image", metavar="NAME", help="Kubernetes: what the container is called")
    add("--slots", type=int, metavar="S", help="Kubernetes: ranks for each worker (1)")
    add_batch(parser)
    add_options(parser)
    parser.set_defaults(command=run_job_files)


def run_job_files(arguments: argparse.Namespace) -> int:
    """Run `job`: convert the program, write the files of a batch job, and return the exit code."""
    from ..convert import NotPythonError
    from ..convert.rules.imports import SHARING_FILE
    from ..jobs.program import left_out, script_of
    from ..jobs.shared_runtime import runtime_file
    from ..launch.hosts import LaunchError, require_ranks

    path: Path = arguments.file
    _, errors = make_consoles(False)
    try:
        require_ranks(arguments.size)
        options = replace(options_for(arguments, path), standalone=True)
        document = load_document(path)
        with conversion_limit(path, arguments.conversion_limit):
            outcome, converted = document.convert(options)
    except (LaunchError, NotPythonError) as error:
        raise UnusableInputError(str(error)) from None
    print_outcome(errors, path, outcome, None)
    if outcome.status not in ("converted", "unchanged"):
        return UNUSABLE if outcome.status == "invalid" else REFUSED
    try:
        program = script_of(converted, document)
    except UnusableInputError as error:
        raise UnusableInputError(f"{path}: {error}") from None
    name = plain_name(path)
    shared = {f"{SHARING_FILE}.py": runtime_file()}
    texts, told = make_job_files(name, program, path, arguments, tuple(shared))
    folder = arguments.output or path.parent
    encoding = converted.encoding if isinstance(converted, Script) else "utf-8"
    texts = {**texts, **shared}
    files = {name: text.encode(errors="surrogateescape") for name, text in texts.items()}
    files[f"{name}.py"] = program.encode(encoding)
    written = write_all(folder, files, force=arguments.force)
    for lost in left_out(document.sources):
        told.append(f"cell {lost.cell}, line {lost.line}: `{lost.text}` is not run by the job")
    for line in told:
        errors.print(line, markup=False, soft_wrap=True)
    for file in written:
        print(file)
    return OK


def make_job_files(
    name: str, program: str, path: Path, arguments: argparse.Namespace, more: tuple[str, ...]
) -> tuple[Mapping[str, str], list[str]]:
    """Make the files to be written beside the program, and the text to print about them.

    Args:
        more: other files that are written there, which the program imports.

    Raises:
        UnusableInputError: an option cannot be used, or is for the other kind of job.
    """
    from ..jobs import kubernetes, slurm
    from ..jobs import program as programs

    own = ("image", "slots") if arguments.slurm else ("time", "partition", "sbatch", "python")
    for option in own:
        if getattr(arguments, option) is not None:
            kind = "--kubernetes" if arguments.slurm else "--slurm"
            raise UnusableInputError(f"--{option}: this is for {kind}")
    beside = tuple(
        file
        for file in programs.modules_beside(program, path.resolve().parent)
        if file.name not in more
    )
    imported = programs.imported_names(program) - {Path(file).stem for file in more}
    elsewhere = arguments.output is not None and arguments.output.resolve() != path.resolve().parent
    told = [f"it imports {file.name}: copy it there too" for file in beside if elsewhere]
    folder = shlex.quote(str(arguments.output or path.parent))
    if arguments.slurm:
        batch = slurm.SlurmJobSpec(
            arguments.size,
            arguments.python or sys.executable,
            arguments.time,
            arguments.partition,
            tuple(parse_words(arguments.sbatch)),
        )
        told.append(f"to submit it:  cd {folder} && sbatch {name}.sbatch")
        return slurm.slurm_files(name, arguments.extra, batch), told
    from ..install.build import CannotBuildError, installed_tensorflow

    try:
        tensorflow = installed_tensorflow()
    except CannotBuildError as error:
        raise UnusableInputError(str(error)) from None
    image = arguments.image or IMAGE.format(kubernetes.kubernetes_name(name))
    cluster = kubernetes.Cluster(
        arguments.size, image, 1 if arguments.slots is None else arguments.slots
    )
    texts = kubernetes.kubernetes_files(
        name,
        arguments.extra,
        cluster,
        tensorflow,
        programs.find_distributions(programs.missing_modules(imported, beside)),
        [*more, *(file.name for file in beside if not file.is_dir())],
        [file.name for file in beside if file.is_dir()],
    )
    told += [
        f"to make its container:  cd {folder} && docker build --file {name}.Dockerfile --tag {image} .",
        f"to submit it, when the cluster can pull {image}:  kubectl apply --filename {name}.mpijob.yaml",
        f"or, where Kubeflow Trainer 2 is installed:  kubectl apply --filename {name}.trainjob.yaml",
    ]
    return texts, told


def parse_words(text: str | None) -> list[str]:
    """Split a command into words as a shell does.

    Raises:
        UnusableInputError: a quotation mark is not closed.
    """
    try:
        return shlex.split(text or "")
    except ValueError as error:
        raise UnusableInputError(f"--sbatch {text}: {error}") from None


def plain_name(path: Path) -> str:
    """Return a name for the files without characters that are special to shells, Slurm or recipes."""
    return f"{re.sub(r'[^A-Za-z0-9_]+', '_', path.stem)[:60].strip('_') or 'program'}_hvd"


def write_all(folder: Path, files: Mapping[str, bytes], *, force: bool) -> list[Path]:
    """Write files into a folder, which is created if it is missing: either all of them, or none if one exists.

    Raises:
        UnusableInputError: one exists already, or cannot be written.
    """
    paths = {folder / name: data for name, data in files.items()}
    there = [str(path) for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        raise UnusableInputError(
            f"{', '.join(there)}: there already; --force writes over, -o chooses another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnusableInputError(f"{folder}: cannot be made ({error.strerror})") from None
    for path, data in paths.items():
        write_atomically(path, data)
    return list(paths)
