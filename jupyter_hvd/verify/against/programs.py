"""Finds programs that cannot be judged, by their text, before anything runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ...convert.documents import Document
from ...files import UnusableInputError
from ...source.masking import mask_cell
from ...source.parsing import syntax_error

#: The strategy of `tf.distribute` whose processes are those of `verify`.
BY_TENSORFLOW = "MultiWorkerMirroredStrategy"
#: What shares a training otherwise than among N processes of one program, and what that is.
ELSEWHERE: Mapping[str, str] = {
    "MirroredStrategy": "the devices of one process",
    "CentralStorageStrategy": "the devices of one process",
    "OneDeviceStrategy": "one device",
    "TPUStrategy": "the cores of a TPU",
    "ParameterServerStrategy": "workers and parameter servers",
    "DataParallel": "the devices of one process",
    "ModelParallel": "the devices of one process",
}
#: What is said of a program whose ranks may train without one another.
NOT_DISTRIBUTED = f"its text names neither Horovod nor {BY_TENSORFLOW}"
CALLS_ELSEWHERE = re.compile(rf"^[^#\n]*\b({'|'.join(ELSEWHERE)})\(", re.MULTILINE)


def require_python(path: Path, document: Document) -> None:
    """Check that a program is non-empty, valid Python.

    Args:
        path: the file's name in the error message.

    Raises:
        UnusableInputError: it is not.
    """
    if not any(text.strip() for text in document.sources.values()):
        raise UnusableInputError(f"{path}: it is empty")
    for cell, text in document.sources.items():
        fault = syntax_error(text if cell is None else mask_cell(text))
        if fault is not None:
            line, _, message = fault
            place = f"line {line}" if cell is None else f"cell {cell}, line {line}"
            raise UnusableInputError(f"{path}: it is not valid Python: {place}: {message}")


def require_processes(path: Path, document: Document) -> None:
    """Check that a program that distributes its training does so among several processes.

    Raises:
        UnusableInputError: it distributes in another way, such as among the GPUs of one process.
    """
    for text in document.sources.values():
        if found := CALLS_ELSEWHERE.search(text):
            raise UnusableInputError(
                f"{path}: `{found[1]}` shares a training among {ELSEWHERE[found[1]]}, and --against runs N processes; "
                f"{BY_TENSORFLOW} and Horovod can be judged"
            )


def names_processes(document: Document) -> bool:
    """Whether the text names Horovod or `tf.distribute`. A program that does not may still import a module that does."""
    texts = document.sources.values()
    return any(name in text for name in ("horovod", BY_TENSORFLOW) for text in texts)


def is_distributed_by_tensorflow(document: Document) -> bool:
    """Whether a program uses `tf.distribute`, by its text."""
    return any(BY_TENSORFLOW in text for text in document.sources.values())
