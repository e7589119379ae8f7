"""What a converted program needs of the runtime, as one file beside it."""

from __future__ import annotations

from pathlib import Path

from .. import __version__, runtime
from ..convert.rules.imports import SHARING_FILE

#: By which a file of ours is known again.
HEAD = (
    f'"""What converted programs need of jupyter_hvd.runtime {__version__}, written by jupyter hvd.'
)
#: Modules of the runtime that sharing imports, beside its own package.
MODULES = ("observe", "process", "scaling", "horovod_names")
#: What programs find in the file, by the module that has it.
NAMES = {
    module: [
        name for name in runtime.__all__ if module in getattr(runtime, name).__module__.split(".")
    ]
    for module in ("sharing", "horovod_names", "scaling")
}
TEXT = (
    HEAD
    + '''

It needs TensorFlow, Keras and Horovod, and none of jupyter_hvd. The modules stand in it as they are in the package.
"""

import importlib.abc
import importlib.util
import sys

VERSION = "{version}"
SOURCES = {{}}
{sources}

class Sources(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports the modules above."""

    def find_spec(self, name, path=None, target=None):
        module = name.removeprefix(f"{{__name__}}.").replace(".", "/")
        for file, package in ((f"{{module}}.py", False), (f"{{module}}/__init__.py", True)):
            if name.startswith(f"{{__name__}}.") and file in SOURCES:
                place = f"{{__file__}}/runtime/{{file}}"
                search = [place.removesuffix("/__init__.py")] if package else None
                return importlib.util.spec_from_file_location(name, place, loader=self, submodule_search_locations=search)
        return None

    def get_filename(self, name):
        return self.find_spec(name).origin

    def get_data(self, path):
        return SOURCES[path.removeprefix(f"{{__file__}}/runtime/")].encode()


__path__ = []
sys.meta_path.append(Sources())
importlib.invalidate_caches()
for _module, _names in {names!r}.items():
    _module = importlib.import_module(f"{{__name__}}.{{_module}}")
    globals().update({{name: getattr(_module, name) for name in _names}})
'''
)


def runtime_file() -> str:
    """Return the text of `jupyter_hvd_sharing.py`, with the sources of this package's runtime as strings."""
    folder = Path(runtime.__file__).parent
    files = [folder / f"{name}.py" for name in MODULES] + sorted((folder / "sharing").glob("*.py"))
    sources = (
        f"SOURCES[{str(file.relative_to(folder))!r}] = {quote_text(file.read_text())}\n"
        for file in files
    )
    return TEXT.format(version=__version__, names=NAMES, sources="".join(sources))


def runtime_path(program: Path) -> Path:
    """Return the path of the file that belongs to a program."""
    return program.with_name(f"{SHARING_FILE}.py")


def is_own(path: Path) -> bool:
    """Whether a file has the text of `runtime_file`, in any version, so that it may be overwritten."""
    try:
        start = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return False
    return start.startswith(HEAD.partition(__version__)[0])


def quote_text(text: str) -> str:
    """Return a Python literal of a text, raw and triple-quoted if possible, so that its lines stay readable."""
    return repr(text) if "'''" in text or text.endswith(("\\", "'")) else f"r'''{text}'''"
