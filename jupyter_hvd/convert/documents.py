"""Scripts and notebooks: loaded, converted, written."""

from __future__ import annotations

import io
import json
import tokenize
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError, is_notebook, read_bytes, write_atomically
from ..source.notebook_file import ChangedCell, join_lines, with_cells

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from . import Conversion, NotebookConversion, Options

#: More Python than this in one program is not written by people; it is refused before it is parsed.
MAX_SOURCE = 5_000_000
#: Statements are what a conversion's time goes with: half a millisecond each, or more.
MAX_STATEMENTS = 50_000


@dataclass(frozen=True)
class Script:
    """A script's text and how it was encoded."""

    source: str
    encoding: str = "utf-8"
    suffix = ".py"

    @property
    def sources(self) -> Mapping[int | None, str]:
        """The program's text, by cell; a script has none."""
        return {None: self.source}

    def with_sources(self, sources: Sequence[str]) -> Script:
        """Return the script with another text. `sources` has one element."""
        (source,) = sources
        return Script(source, self.encoding)

    def convert(self, options: Options | None = None) -> tuple[Conversion, Script]:
        """Convert the script; return the conversion, and the script with the converted text."""
        from . import convert_source

        conversion = convert_source(self.source, options=options)
        return conversion, Script(conversion.code, self.encoding)

    def as_bytes(self) -> bytes:
        """Return the bytes to write into a file, in the script's encoding."""
        return self.source.encode(self.encoding)


@dataclass(frozen=True)
class Notebook:
    """A notebook of nbformat 4.

    Attributes:
        file: the text of the file in nbformat 4 that it was read from, in which all but the cells that change stays as it
            was; None where it comes from elsewhere, or from an older format.
    """

    notebook: NotebookNode
    file: str | None = field(default=None, repr=False)
    suffix = ".ipynb"

    @property
    def sources(self) -> Mapping[int | None, str]:
        """The program's text: the code cells, by index."""
        cells = enumerate(self.notebook.cells)
        return {index: cell.source for index, cell in cells if cell.cell_type == "code"}

    def with_sources(self, sources: Sequence[str]) -> Notebook:
        """Return a copy with other texts of the code cells, one for each, in order."""
        import copy

        changed = copy.deepcopy(self.notebook)
        cells = [cell for cell in changed.cells if cell.cell_type == "code"]
        for cell, source in zip(cells, sources, strict=True):
            cell.source = source
        return Notebook(changed, self.file)

    def convert(self, options: Options | None = None) -> tuple[NotebookConversion, Notebook]:
        """Convert the notebook; return the conversion, and a notebook with the converted cells.

        Raises:
            NotPythonError: the notebook's kernel speaks another language.
        """
        from . import convert_notebook

        conversion = convert_notebook(self.notebook, options=options)
        return conversion, Notebook(conversion.notebook, self.file)

    def as_bytes(self) -> bytes:
        """Return the bytes to write into a file. If the notebook was read from a file, all bytes but those of changed cells
        stay as they were there.
        """
        if self.file is not None:
            return with_cells(
                self.file, self._changed_cells(json.loads(self.file)["cells"])
            ).encode()
        try:
            return self._format_notebook().encode()
        except UnicodeEncodeError:  # a lone surrogate, which has a form in JSON's escapes alone
            return self._format_notebook(ensure_ascii=True).encode()

    def _changed_cells(self, before: Sequence[Mapping[str, Any]]) -> dict[int, ChangedCell]:
        """Return the code cells whose text differs from the file's, by their index among all cells."""
        return {
            place: ChangedCell(cell.source, cleared=not cell.get("outputs"))
            for place, (cell, was) in enumerate(zip(self.notebook.cells, before, strict=True))
            if cell.cell_type == "code" and cell.source != join_lines(was.get("source", ""))
        }

    def _format_notebook(self, **form: bool) -> str:
        """Return the full notebook as nbformat writes it. `form` are options of `json.dumps`."""
        import nbformat

        return str(nbformat.writes(self.notebook, **form)).rstrip("\n") + "\n"


Document = Script | Notebook


def load_document(path: Path) -> Document:
    """Read a notebook or script.

    Raises:
        UnusableInputError: it is neither, cannot be read or decoded, or is too large.
    """
    if is_notebook(path):
        document: Document = load_notebook(path)
    elif path.suffix == ".py" or (path.is_file() and not path.suffix):
        document = load_script(path)
    elif path.exists():
        raise UnusableInputError(f"{path}: neither a notebook (.ipynb) nor a script (.py)")
    else:
        raise UnusableInputError(f"{path}: there is no such file")
    check_size(document, f"{path}: ")
    return document


def write_document(path: Path, document: Document) -> None:
    """Write a document atomically: at every moment the file has either its old or its new contents.

    Raises:
        UnusableInputError: the file cannot be written.
    """
    write_atomically(path, document.as_bytes())


def load_script(path: Path) -> Script:
    """Read a script as Python itself would: by its coding line, UTF-8 otherwise.

    Raises:
        UnusableInputError: as for `load_document`.
    """
    data = read_bytes(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return Script(data.decode(encoding), encoding)
    except (SyntaxError, ValueError, LookupError) as error:
        raise UnusableInputError(
            f"{path}: the text cannot be decoded ({error}); save it as UTF-8"
        ) from error


def load_notebook(path: Path) -> Notebook:
    """Read a notebook of any nbformat version as version 4, with or without a byte-order mark.

    Raises:
        UnusableInputError: as for `load_document`, or its kernel speaks another language than Python.
    """
    from .notebook import read_notebook_language

    data = read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
        notebook = parse_notebook(text)
    except UnicodeDecodeError as error:
        raise UnusableInputError(
            f"{path}: the notebook is not UTF-8 ({error.reason} at byte {error.start})"
        ) from error
    except ValueError as error:
        raise UnusableInputError(f"{path}: this is not a Jupyter notebook ({error})") from error
    language = read_notebook_language(notebook)
    if language != "python":
        raise UnusableInputError(f"{path}: this notebook is written in {language}, not in Python")
    return Notebook(notebook, text if json.loads(text).get("nbformat") == 4 else None)


def parse_notebook(text: str) -> NotebookNode:
    """Parse a notebook of any nbformat version, and return it as version 4.

    Like JupyterLab, this accepts some violations of nbformat's schema: cells with ids in version 4.4, say.

    Raises:
        ValueError: it is not a notebook; the message is one short line.
    """
    from nbformat import convert, reader

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = json.loads(text)
            if isinstance(read, dict) and read.get("nbformat") == 4:
                _check_cells(read)
            notebook = convert(reader.reads(text), 4)
        _check_cells(notebook)
    except Exception as error:
        # nbformat raises whatever the broken place happens to cause.
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise ValueError(reason) from error
    return notebook


def _check_cells(notebook: Mapping[str, Any]) -> None:
    """Check the parts of a version-4 notebook that the converter reads.

    Raises:
        ValueError: the metadata, a cell, its text or its outputs have another type.
    """
    if not isinstance(notebook.get("metadata", {}), dict):
        raise ValueError("its metadata is not an object")
    if not isinstance(notebook.get("cells"), list):
        raise ValueError("its cells are not a list")
    for place, cell in enumerate(notebook["cells"]):
        if not isinstance(cell, dict) or not isinstance(cell.get("cell_type"), str):
            raise ValueError(f"cell {place} has no type")
        source = cell.get("source")
        if not all(isinstance(t, str) for t in (source if isinstance(source, list) else [source])):
            raise ValueError(f"cell {place} has no text")
        if not isinstance(cell.get("outputs", []), list):
            raise ValueError(f"the outputs of cell {place} are not a list")


def check_size(document: Document, where: str = "") -> None:
    """Refuse programs that would take minutes to convert; people do not write so long ones.

    Args:
        where: what the error message begins with, such as the path.

    Raises:
        UnusableInputError: the program is too long.
    """
    size = sum(map(len, document.sources.values()))
    if size > MAX_SOURCE:
        raise UnusableInputError(f"{where}{size / 1e6:.0f} MB of Python is too much to convert")
    lines = sum(text.count("\n") + text.count(";") for text in document.sources.values())
    if lines > MAX_STATEMENTS:
        raise UnusableInputError(
            f"{where}{lines:,} lines of Python are too many to convert; the limit is {MAX_STATEMENTS:,}"
        )
