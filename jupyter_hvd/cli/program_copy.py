"""The copy of a program that ranks run, with a map from its lines to the user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.documents import write_document

if TYPE_CHECKING:
    from ..convert.documents import Document
    from ..launch.diagnosis import Locate
    from ..launch.reaper import PrivateFolder


@contextmanager
def write_program_copy(
    path: Path, name: str, original: Document, program: Document, shared: bool
) -> Iterator[tuple[Path, PrivateFolder, Locate]]:
    """Write a program into a private folder that is removed after the block.

    Yields the copy's path, its folder, and a function that maps its lines to the user's file.

    Args:
        path: the user's file. name: the copy's.
        original: the contents of the user's file. program: the contents of the copy.
        shared: make the folder beside the file, where other hosts see it too.
    """
    from ..launch.diagnosis import locate_by
    from ..launch.reaper import private_folder
    from ..source.lines import origin_finder

    with private_folder(path.resolve().parent if shared else None) as folder:
        copy = folder.path / name
        write_document(copy, program)
        finder = origin_finder(original.sources, program.sources)
        yield copy, folder, locate_by(finder, path.name)
