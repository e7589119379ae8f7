"""What each IPython magic means for a training program: the only list of their names."""

from __future__ import annotations

import re

#: Cell magics whose body is a cell again, in Python that runs in the notebook's own namespace.
PYTHON_CELL_MAGICS = frozenset({"capture", "distribute", "prun", "time", "timeit", "tensor"})
#: Magics that are given to another process, or write a file. `!` is the name of a shell line.
PROCESS_MAGICS = frozenset(
    (
        *("!", "bash", "perl", "python", "python3", "ruby", "script", "sh", "sx", "system"),
        "writefile",
    )
)
#: Magics that install packages.
INSTALLING_MAGICS = frozenset({"pip", "conda", "mamba"})
#: Magics without which a program does the same: they show, time, or are about the notebook.
SHOWING_MAGICS = PYTHON_CELL_MAGICS | {
    *("matplotlib", "load_ext", "reload_ext", "autoreload", "config", "xmode", "precision"),
    *("hvd", "rank", "gradcost", "tensorflow_version"),
    *("who", "whos", "html", "HTML", "markdown", "latex", "javascript", "js", "svg"),
}
#: The first line of a cell under a cell magic, and the blank lines above it; `%%time?` asks for help.
CELL_MAGIC = re.compile(r"\s*%%(?!\w+\?)[ \t]*(?P<name>!|\w*)[^\r\n]*")
#: A line magic with a Python statement behind its options, which is the program's own. Older IPython takes a
#: blank behind the `%`.
TIMED = re.compile(
    r"""%[ \t]* (?: time (?:[ \t]+--[\w-]+)*
                | timeit (?:[ \t]+(?: -[nrpv][ \t]*\S+ | -[tcqo]+ ))*
                | prun (?:[ \t]+(?: -[DlsT][ \t]*\S+ | -[rq]+ ))* )
        [ \t]+ (?=[^\s-])""",
    re.VERBOSE,
)
#: Lines of this package's own magics, which are for the notebook alone.
OWN_LINES = re.compile(
    r"^([ \t]*)%(?:(?:re)?load_ext[ \t]+jupyter_hvd|hvd\b|distribute\b).*$", re.MULTILINE
)
#: Magics after which any name may be there.
ANY_NAME = re.compile(r"^[ \t]*%(?:run|pylab|store)\b", re.MULTILINE)


def cell_magics(source: str) -> tuple[str, ...]:
    """Return the names of a cell's cell magics, the outer ones first."""
    names: list[str] = []
    start = 0
    while (magic := CELL_MAGIC.match(source, start)) is not None:
        names.append(magic["name"])
        if magic["name"] not in PYTHON_CELL_MAGICS:
            break  # its body is no cell
        start = magic.end()
    return tuple(names)
