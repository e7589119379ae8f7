"""Quick walks find what LibCST's own find: children, scopes and positions."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider, Scope, ScopeProvider

from jupyter_hvd.analysis.metadata import positions_in, scopes_in
from jupyter_hvd.analysis.tree import children_of, nodes_in, parents_in

ROOT = Path(__file__).parents[2]
#: Every kind of statement and expression, with what stands in another order than it is declared in.
ALL = """\
import a.b as c, d
from e import (f as g, h)
@c.decorated
@g
class C(f, metaclass=h):
    x: int = 1
    def m(self, p, /, q=2, *args, r: "int" = 3, **kw) -> "C": return (yield p)
async def coroutine(*, only=None):
    async with c as (one, two), d: await c
    async for i in c: pass
    return [x async for x in c if x]
try:
    x[1:2:3], (y, *z) = c.d(*e, key=1, **f) if g else lambda u, v=1: u
except (A, B) as error:
    raise error from None
else:
    x.attr += 1
finally:
    del x, y.z
while (n := n - 1):
    global k
    assert n, f"{n!r:>{width}}" "joined"
match command:
    case [1, {"a": first, **rest}, C(p, q=2) | None, *others] if others: ...
    case _ as whole: ...
both = {**a, "b": 1} | {k: v for k, v in a for w in v if w} and not {1, *b} <= {s for s in c}
print(*a, sep="", file=b); i = a[b][..., None]
"""
PROGRAMS = sorted((ROOT / "tests" / "programs").glob("*.py"))[::8]
PUNCTUATION = (
    cst.BaseParenthesizableWhitespace,
    *(cst.TrailingWhitespace, cst.EmptyLine, cst.Comma, cst.Semicolon, cst.Colon, cst.Dot),
    *(
        cst.AssignEqual,
        cst.LeftParen,
        cst.RightParen,
        cst.LeftSquareBracket,
        cst.RightSquareBracket,
    ),
    *(cst.LeftCurlyBrace, cst.RightCurlyBrace, cst.Asynchronous, cst.ParamSlash),
)


def sources() -> dict[str, str]:
    return {"all": ALL, **{path.stem: path.read_text() for path in PROGRAMS}}


@pytest.fixture(params=sources().values(), ids=sources().keys())
def tree(request: pytest.FixtureRequest) -> cst.Module:
    return cst.parse_module(request.param)


def test_children(tree: cst.Module) -> None:
    for node in nodes_in(tree):
        wanted = [child for child in node.children if not isinstance(child, PUNCTUATION)]
        assert list(map(id, children_of(node))) == list(map(id, wanted)), type(node).__name__
    parents = parents_in(tree)
    assert all(any(each is node for each in children_of(parents[node])) for node in parents)


def assigned(scope: Scope, name: str) -> Set[cst.CSTNode]:
    return {found.node for found in scope[name] if hasattr(found, "node")}


def test_scopes_and_positions(tree: cst.Module) -> None:
    metadata = MetadataWrapper(tree, unsafe_skip_copy=True).resolve_many(
        [PositionProvider, ScopeProvider]
    )
    scopes, positions = scopes_in(tree), positions_in(tree)
    for node in nodes_in(tree):
        assert positions[node] == metadata[PositionProvider][node]
        wanted, found = metadata[ScopeProvider].get(node), scopes.get(node)
        assert type(found) is type(wanted)
        if isinstance(node, cst.Name) and found is not None:
            assert assigned(found, node.value) == assigned(wanted, node.value), node.value
            ours = {a.node for a in found.accesses[node.value]}
            assert ours == {a.node for a in wanted.accesses[node.value]}
