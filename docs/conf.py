"""The site: the Markdown pages of the checkout, with a table of contents.

`make site` builds it into build/site. The source folder is the whole checkout, so that a link from README.md to
docs/rules.md, or from there to an example, is one and the same everywhere.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

#: What stands in the margin: a caption, and its pages.
PAGES = {
    "Distribute": [
        ("In a notebook: %%distribute", "docs/distribute"),
        ("On several machines", "docs/clusters"),
        ("Verify a conversion", "docs/verify"),
        ("In JupyterLab: review, verify, run", "docs/review"),
        ("Same batches: --batch global", "docs/exact"),
        ("Larger batches: --batch per-rank", "docs/scaling"),
        ("Where it runs", "docs/platforms"),
        ("What is converted", "docs/coverage"),
        ("The rules", "docs/rules"),
        ("Runtime library", "docs/runtime"),
    ],
    "Differentiate": [
        ("What you can write", "docs/writing"),
        ("The tensor language", "docs/tensor-language"),
        ("NumPy functions", "docs/numpy"),
        ("Loops that carry values", "docs/recurrences"),
        ("Sparse Jacobians", "docs/jacobians"),
        ("Sparse derivatives in solvers", "docs/solvers"),
        ("From function to kernel", "docs/kernels"),
        ("Performance of kernels", "docs/performance"),
        ("What XLA compiles slowly", "docs/xla-notes"),
        ("GradBench", "docs/gradbench"),
    ],
    "Inspect": [("What a gradient costs", "docs/gradient-cost")],
    "Assistants": [("Tools for assistants", "docs/assistants")],
    "Guarantees and tests": [
        ("What a conversion claims", "docs/soundness"),
        ("Silent errors", "docs/silent-errors"),
        ("Public code", "docs/corpus"),
        ("Earlier results on other people’s code", "docs/corpus-history"),
        ("Generated programs", "docs/generated"),
        ("Security", "docs/security"),
        ("Comparison with Horovod and tf.distribute", "docs/peers"),
    ],
    "Reference": [
        ("%%distribute", "docs/distribute-reference"),
        ("--batch global", "docs/exact-reference"),
        ("--batch per-rank", "docs/scaling-reference"),
        ("verify", "docs/verify-reference"),
        ("Clusters", "docs/clusters-reference"),
        ("The review in JupyterLab", "docs/review-reference"),
        ("The tensor language", "docs/tensor-language-reference"),
        ("Loops that carry values", "docs/recurrences-reference"),
        ("Jacobians", "docs/jacobians-reference"),
        ("What a gradient costs", "docs/gradient-cost-reference"),
        ("Measurements of kernels", "docs/performance-tables"),
    ],
    "Contribute": [
        ("Contributing", "CONTRIBUTING"),
        ("Architecture", "docs/architecture"),
        ("Modules", "docs/modules"),
        ("Messages", "docs/messages"),
        ("The JSON format", "docs/json"),
        ("Glossary", "docs/glossary"),
        ("Changelog", "CHANGELOG"),
    ],
}

project = "jupyter_hvd"
html_title = project
copyright = "the jupyter_hvd developers, BSD-3-Clause"
html_show_sphinx = False

root_doc = "README"
include_patterns = [f"{page}.md" for pages in PAGES.values() for _, page in pages] + ["README.md"]
# Folders that hold no page are not walked through.
exclude_patterns = [".*", "build", "dist", "lib", "node_modules", "jupyter_hvd", "tests", "ui-tests"]

extensions = ["myst_parser", "sphinxcontrib.mermaid"]
html_theme = "furo"
html_copy_source = False
# Links name headings as GitHub does.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
# The site is whole by itself: what draws the diagrams is JupyterLab's own, from node_modules.
mermaid_use_local = "mermaid.mjs"
MERMAID = Path(__file__).parent.parent / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
#: What makes a browser ask another host: links do not, until they are followed.
FOREIGN = re.compile(r"""(?:<(?:script|link|img)\b[^>]*?(?:src|href)=|\bimport\b[^;<]*?)["'](?:https?:)?//[^"']*""")


def with_contents(_app: Sphinx, page: str, text: list[str]) -> None:
    """The way through the site belongs to its first page, and would be noise where README.md is read."""
    if page == root_doc:
        for caption, pages in PAGES.items():
            lines = "\n".join(f"{title} </{path}>" for title, path in pages)
            text[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def at_the_door(app: Sphinx, error: Exception | None) -> None:
    """The first page is what a folder shows."""
    if error is None:
        out = Path(app.outdir)
        shutil.copy(out / f"{root_doc}.html", out / "index.html")


def with_mermaid(app: Sphinx, error: Exception | None) -> None:
    """Its one file is no module; one beside it is."""
    if error is None:
        static = Path(app.outdir) / "_static"
        if not MERMAID.exists():
            raise SphinxError(f"{MERMAID} is not there: `jlpm install`")
        shutil.copy(MERMAID, static)
        text = f'import "./{MERMAID.name}";\nexport default globalThis.mermaid;\n'
        (static / mermaid_use_local).write_text(text)


def asks_nobody(app: Sphinx, error: Exception | None) -> None:
    """A page that loads something from elsewhere fails the build."""
    for page in Path(app.outdir).rglob("*.html") if error is None else ():
        found = FOREIGN.search(page.read_text())
        if found:
            raise SphinxError(f"{page.name} loads from another host: {found[0]}")


def setup(app: Sphinx) -> None:
    app.connect("source-read", with_contents)
    for then in (at_the_door, with_mermaid, asks_nobody):
        app.connect("build-finished", then)
