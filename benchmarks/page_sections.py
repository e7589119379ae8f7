"""Parts of pages that benchmarks write: all between two comments, `<!-- table -->` and `<!-- end of table -->`."""

from __future__ import annotations

from pathlib import Path


def replace_section(page: Path, name: str, text: str) -> None:
    """Write what stands between the comments of a name anew.

    Raises:
        ValueError: the page has no such comments, or some twice.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = page.read_text().split(begin)
    _, after = rest.split(end)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
