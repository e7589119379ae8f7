"""Sends values whose parts stay behind: the parts are replaced by access paths.

Models and the user's own objects never travel. But where a cell lets a dictionary, a list, an object or a name hold one that
was there before it (`models["best"] = models["a"]`), the notebook has its counterpart, and the path that led to it. So what
they hold travels with such paths in the place of what stays: a pickle whose persistent ids are paths.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Mapping
from typing import Any

from .paths import AccessPath
from .serialization import (
    PLAIN_MODULES,
    SerializedValue,
    explain_not_transferable,
    is_plain,
    keras_kind,
    pack_value,
    unpack_value,
)

#: The modules of plain values and of containers, and of the functions that make them again.
RECREATED_MODULES = PLAIN_MODULES | {"_codecs", "copyreg", "jupyter_hvd", "types"}


def pack_linked(value: Any, paths_by_id: Mapping[int, AccessPath], limit: int) -> SerializedValue:
    """Serialize a value, with access paths in place of known objects; of kind "none" if the rest cannot be sent.

    Args:
        paths_by_id: paths to objects that the kernel has, by their ids.
        limit: the largest size in bytes.
    """
    simple = pack_value(value, limit)
    if simple.kind in ("plain", "history") or is_plain(value):
        return simple
    data = io.BytesIO()
    try:
        _Pickler(data, paths_by_id).dump(value)
    except Exception as error:
        why = str(error) if isinstance(error, NotTransferableError) else simple.why
        return SerializedValue("none", why=f"{why}; make it in an ordinary cell")
    if data.tell() > limit:
        return SerializedValue("none", why=f"it is larger than {limit // 2**20} MB")
    return SerializedValue("linked", data.getvalue())


def unpack_linked(packed: SerializedValue, namespace: Mapping[str, Any]) -> Any:
    """Return the packed value, with this process's objects in place of the paths.

    Raises:
        LookupError: a path leads to nothing of its kind.
    """
    if packed.kind != "linked":
        return unpack_value(packed, None)
    return _Unpickler(io.BytesIO(packed.data), namespace).load()


class NotTransferableError(Exception):
    """A value cannot be pickled, so it stays on its rank; the message says why."""


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, paths_by_id: Mapping[int, AccessPath]) -> None:
        super().__init__(file, protocol=5)
        self._known = paths_by_id

    def persistent_id(self, value: Any) -> tuple[AccessPath, bool] | None:
        """Return the path in place of a known object, and whether it has weights."""
        path = self._known.get(id(value))
        return None if path is None else (path, keras_kind(value) == "weights")

    def reducer_override(self, value: Any) -> Any:
        """Return how an object is pickled: tensors as arrays; objects of the user's own classes are refused."""
        if keras_kind(value) in ("tensor", "history"):
            return unpack_value, (pack_value(value, None), None)
        named = isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType))
        kind = value if named else type(value)
        top = (kind.__module__ or "").partition(".")[0]
        if (
            id(kind) not in self._known and top not in RECREATED_MODULES
        ):  # a class may be one that the notebook has, too
            raise NotTransferableError(explain_not_transferable(value))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, namespace: Mapping[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, reference: tuple[AccessPath, bool]) -> Any:
        """Return the object to which a path leads; LookupError if there is none of this kind."""
        path, has_weights = reference
        value = path.follow_path(self._namespace)
        if value is None or (keras_kind(value) == "weights") != has_weights:
            raise LookupError(f"the ranks have no `{path}`")
        return value
