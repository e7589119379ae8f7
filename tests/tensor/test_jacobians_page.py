"""docs/jacobians.md shows what its examples print; `tests/test_documentation.py` runs all of them."""

import linecache
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "jacobians.md"
FIRST = 3  # blocks, the last of which prints


def test_printed_pattern_is_shown(capsys):
    text = PAGE.read_text()
    code = "\n\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:FIRST])
    lines = code.splitlines(keepends=True)
    linecache.cache["jacobians page"] = len(code), None, lines, "jacobians page"
    names = {"__name__": "jacobians_page"}
    exec(compile(code, "jacobians page", "exec"), names)
    (shown,) = re.findall(r"```\n\n((?:    .*\n)+)", text)
    assert capsys.readouterr().out == re.sub("^    ", "", shown, flags=re.MULTILINE)
    assert names["J"].nnz == 2996
