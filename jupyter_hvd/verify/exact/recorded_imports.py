"""Records the numbers in the modules that a program imports from its own folder."""

from __future__ import annotations

import ast
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from .number_recorder import GLOBALS, recorder


class RecordedLoader(SourceFileLoader):
    """Loads a module whose numbers are recorded; its compiled code is not stored."""

    def source_to_code(  # type: ignore[override] # as SourceLoader has it
        self, data: Any, path: Any, *, _optimize: int = -1
    ) -> CodeType:
        tree = recorder.instrument(ast.parse(data, path), str(path))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(GLOBALS)
        super().exec_module(module)

    def set_data(self, *_: Any, **__: Any) -> None:
        """Write nothing beside the source."""


def record_imports(folder: Path) -> None:
    """Record the numbers of all modules that this process imports from a folder and below from now on."""

    def find_modules(path: str) -> FileFinder:
        if not Path(path).resolve().is_relative_to(folder):
            raise ImportError(f"{path}: not below {folder}", path=path)
        loaders = ((ExtensionFileLoader, EXTENSION_SUFFIXES), (RecordedLoader, SOURCE_SUFFIXES))
        return FileFinder(path, *loaders)

    sys.path_hooks.insert(0, find_modules)
    sys.path_importer_cache.clear()
