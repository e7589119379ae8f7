"""Training programs of others, under `jupyter hvd verify --batch global`, on data that stand in for downloads.

`python -m tests.exact.collection_counts [--sizes 2] [--most 60] [--into FILE] NAME=FOLDER …` takes every script and notebook
below the folders that names Keras or TensorFlow and trains; of a folder with more, `--most` drawn with a seed. Two things are
changed in a copy: a line before all others installs `stand_in_data`, and numbers of epochs become 2.
"""

from __future__ import annotations

import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat

from .program_counts import Case, arguments, count_outcomes, starting_processes

HERE = Path(__file__).parent
TRAINS = re.compile(r"\.(fit|fit_generator|train_on_batch)\(|GradientTape\(")
FRAMEWORK = re.compile(r"^\s*(import|from)\s+(tensorflow|keras)\b", re.MULTILINE)
FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)
EPOCHS = re.compile(r"\b((?:(?:num|nb|n)_)?epochs?\s*=\s*)\d+", re.IGNORECASE)
#: A program that writes out the number of rows of a dataset needs as many.
WRITTEN_ROWS = re.compile(r"\b[1-6]0[,_]?000\b")
#: Most training steps of a run.
FEW_STEPS = 100


def text_of(path: Path) -> str:
    """The code of a script or notebook; "" for what is neither."""
    try:
        if path.suffix == ".py":
            return path.read_text()
        cells = nbformat.read(path, as_version=4).cells
    except (ValueError, OSError, nbformat.reader.NotJSONError):
        return ""
    return "\n".join(cell.source for cell in cells if cell.cell_type == "code")


def training_files(folder: Path) -> list[Path]:
    """The scripts and notebooks below a folder that train, by path."""
    every = sorted(path for path in folder.rglob("*") if path.suffix in (".py", ".ipynb"))
    texts = {path: text_of(path) for path in every}
    return [path for path, text in texts.items() if TRAINS.search(text) and FRAMEWORK.search(text)]


def first_line(text: str) -> str:
    """What stands before a program, in one line."""
    full = bool(WRITTEN_ROWS.search(text))
    return f"import stand_in_data; stand_in_data.install({full})"


def with_few_epochs(text: str) -> str:
    return EPOCHS.sub(r"\g<1>2", text)


def with_stand_ins(path: Path, into: Path) -> Path:
    """A copy of a program in a folder, with stand-in data and two epochs."""
    line, copy = first_line(text_of(path)), into / path.name
    if path.suffix == ".py":
        text = path.read_text()
        future = "".join(found.group() for found in FUTURE.finditer(text))
        copy.write_text(f"{future}{line}\n{with_few_epochs(FUTURE.sub('', text))}")
        return copy
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = with_few_epochs(cell.source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(line))
    nbformat.write(notebook, copy)
    return copy


def cases(folders: list[str], most: int, work: Path) -> Iterator[Case]:
    """A case for each training file of NAME=FOLDERs, in a folder of its own below `work`."""
    for given in folders:
        name, _, folder = given.rpartition("=")
        files = training_files(Path(folder))
        if len(files) > most:
            files = sorted(random.Random(0).sample(files, most))
        for path in files:
            own = work / str(path.relative_to(folder)).replace("/", "--")
            own.mkdir()
            yield Case(f"{name}: {path.relative_to(folder)}", with_stand_ins(path, own), own)


def main() -> int:
    parser = arguments(__doc__, (2,))
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="files of a folder")
    parser.set_defaults(steps=FEW_STEPS)
    given = parser.parse_args()
    os.environ["MPLBACKEND"] = "Agg"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as work, starting_processes():
        return count_outcomes(cases(given.folders, given.most, Path(work)), given)


if __name__ == "__main__":
    sys.exit(main())
