"""Reads the files that a program has written: as text, as arrays, or only their sizes."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .text_comparison import select_compared_lines

#: Text files up to this size are compared line by line.
LARGEST_TEXT = 20_000_000
#: Files whose bytes say how they were made: only that they are there is compared.
BY_EXISTENCE = re.compile(
    r"(^|/)(saved_model\.pb|fingerprint\.pb|keras_metadata\.pb|events\.out\.tfevents[^/]*)$|\.data-\d+-of-\d+$|\.pyc$"
)
#: Where an object of a configuration was in memory.
SHARED_OBJECT = re.compile(rb'"shared_object_id": \d+')
UNORDERED = re.compile(r"(^|/)_all_variables/\d+/")
#: The size of a file that was removed.
REMOVED = -1
#: A long number in a name is a date, a time or a process; of TensorBoard's files, all that follows is.
LONG_NUMBER = re.compile(r"(?<=events\.out\.tfevents\.).*|\d{6,}")


@dataclass(frozen=True)
class Content:
    """The contents of a file.

    Attributes:
        lines: of a text. arrays: by name. size: of any other file; None where sizes are not compared.
    """

    lines: tuple[str, ...] | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    size: int | None = None


def read_contents(folder: Path, names: Iterable[str]) -> dict[str, Content]:
    """Read a folder's files by name; long numbers in the names become `#`."""
    return {LONG_NUMBER.sub("#", name): read_content(folder, name) for name in names}


def read_content(folder: Path, name: str) -> Content:
    """Read a file as text or arrays, depending on its name; only its size where that fails."""
    path = folder / name
    with suppress(Exception):  # it is not what its name says
        if BY_EXISTENCE.search(name):
            return Content()
        if name.endswith((".npy", ".npz")):
            return Content(arrays=read_numpy_file(path))
        if name.endswith(".index"):
            return Content(arrays=read_checkpoint(path))
        if name.endswith((".h5", ".hdf5")):
            return Content(arrays=read_hdf5_file(path))
        if name.endswith(".keras"):
            return read_keras_file(path, folder)
        if (lines := decode_lines(path.read_bytes(), folder)) is not None:
            return Content(lines=lines)
    return Content(size=path.stat().st_size if path.exists() else REMOVED)


def decode_lines(data: bytes, folder: Path) -> tuple[str, ...] | None:
    """Decode the lines of a text without the folder's path; None where the data are not text."""
    if len(data) > LARGEST_TEXT or b"\0" in data:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return tuple(select_compared_lines(text.replace(str(folder), "").splitlines()))


def read_numpy_file(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of a `.npy` or `.npz` file by name."""
    found = np.load(path)
    if isinstance(found, np.ndarray):
        return {"": found}
    with found:
        return {name: found[name] for name in found.files}


def read_hdf5_file(file: Any) -> dict[str, NDArray[Any]]:
    """Read the datasets of an HDF5 file by name."""
    import h5py

    arrays: dict[str, NDArray[Any]] = {}

    def keep_array(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = np.asarray(item[()])

    with h5py.File(file) as opened:
        opened.visititems(keep_array)
    return arrays


def read_keras_file(path: Path, folder: Path) -> Content:
    """Read the configuration and weights of a `.keras` file, without its date."""
    with zipfile.ZipFile(path) as archive:
        lines = decode_lines(SHARED_OBJECT.sub(b"", archive.read("config.json")), folder)
        return Content(lines, read_hdf5_file(io.BytesIO(archive.read("model.weights.h5"))))


def read_checkpoint(index: Path) -> dict[str, NDArray[Any]]:
    """Read the variables of a TensorFlow checkpoint, given its `.index` file."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # it would describe the machine
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(index.with_suffix("")))
    names = reader.get_variable_to_shape_map()
    arrays = {name: np.asarray(reader.get_tensor(name)) for name in sorted(names)}
    arrays = {name: array for name, array in arrays.items() if array.dtype.kind in "biufc"}
    # A SavedModel numbers these in the order of a set.
    unordered = [name for name in arrays if UNORDERED.search(name)]
    values = sorted((arrays[name] for name in unordered), key=lambda a: (a.shape, np.sum(a)))
    return {**arrays, **dict(zip(unordered, values, strict=True))}
