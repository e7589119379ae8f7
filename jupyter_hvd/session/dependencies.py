"""Which earlier cells a cell needs: a pure analysis of names, cell by cell.

A cell binds names, uses names and changes what names stand for. What a cell needs
is, for each name that it uses, the cell that bound it last, the cells that have
changed it since, and what these need in turn. Functions look their globals up when
they are called, so what a function's body uses counts where the function is used.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

BUILTINS = frozenset(dir(builtins)) | {
    "display", "get_ipython", "exit", "quit", "In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "__name__", "__file__",
}  # fmt: skip

#: Methods that leave what they are called on as it is, as far as another process cares: they look,
#: write, draw, or train (what training leaves behind travels as weights, not by running it again).
LOOKING = frozenset(
    [
        "fit",
        "evaluate",
        "predict",
        "train_on_batch",
        "test_on_batch",
        "predict_on_batch",
        "apply_gradients",
        "minimize",
        "gradient",
        "summary",
        "save",
        "save_weights",
        "export",
        "write",
        "plot",
        "show",
        "head",
        "tail",
        "info",
        "describe",
        "hist",
        "imshow",
        "savefig",
        "to_csv",
        "numpy",
        "print",
        "get_config",
        "count",
        "items",
        "keys",
        "values",
        "close",
        "flush",
        "map",
        "batch",
        "shuffle",
        "take",
    ]
)
#: Calls of a module's functions that change how the module works from then on.
SETTING = re.compile(
    r"^(set_|seed$|enable_|disable_|register|use$|filterwarnings$|simplefilter$|basicConfig$|run_functions_eagerly$|update$|environ$|append$|insert$|manual_seed$|clear_session$)"
)
#: Functions that change their first argument in place.
IN_PLACE = frozenset(
    {"shuffle", "fill_diagonal", "put", "copyto", "setattr", "heappush", "heapify"}
)
ASKING = frozenset({"input", "getpass"})


@dataclass(frozen=True)
class Names:
    """What a cell does to names.

    Attributes:
        binds: names that it binds at top level.
        uses: names that it uses, at once, that are not its own.
        later: names that its functions use when they are called.
        changes: names whose objects it changes in place.
        changes_later: names whose objects its functions change when they are called.
        modules: names that it imports.
        star: whether it imports everything from somewhere. asks: whether it asks the user for something.
    """

    binds: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    changes_later: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    star: bool = False
    asks: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell that has run, as it was then.

    Attributes:
        number: its execution count. source: its text, magics masked.
        distributed: whether it ran on the ranks and not in the notebook.
        star: whether it may have bound any name, as `%run` does.
    """

    number: int
    source: str
    distributed: bool = False
    star: bool = False


@dataclass(frozen=True)
class Needs:
    """What has to be on the ranks before a cell.

    Attributes:
        cells: all cells that it needs, in order, by number.
        run: those that have to be run now.
        push: names that no cell can rebuild, whose values the notebook has.
        names: every name that the cell, or a function that it calls, uses.
        changed: names whose values the cell may leave different.
    """

    cells: tuple[int, ...] = ()
    run: tuple[int, ...] = ()
    push: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def needs(
    history: Sequence[Cell],
    current: Cell,
    on_ranks: Sequence[int] = (),
    has_value: Callable[[str], bool] = lambda _: False,
    given: Mapping[str, int] = MappingProxyType({}),
) -> Needs:
    """What a cell needs of those that ran before it.

    Args:
        history: the cells that have run without failing, in order.
        on_ranks: the numbers of the cells that have run on the ranks, in that order.
        has_value: whether the notebook has, under a name, a value that could be pushed.
        given: names whose values the user has pushed, with the number of the cell that did.
    """
    return _Analysis((*history, current), frozenset(on_ranks), has_value, given).plan(on_ranks)


class _Analysis:
    def __init__(
        self,
        cells: tuple[Cell, ...],
        sent: frozenset[int],
        has_value: Callable[[str], bool],
        given: Mapping[str, int],
    ) -> None:
        self.cells = cells
        self.names = [names_of(cell.source) for cell in cells]
        self.place = {cell.number: index for index, cell in enumerate(cells)}
        self.sent, self.has_value, self.given = sent, has_value, given
        self._needed: dict[int, frozenset[int]] = {}
        self.push: set[str] = set()

    def binder(self, name: str, before: int) -> int | None:
        for index in range(before - 1, -1, -1):
            if name in self.names[index].binds:
                return index
        return None

    def rebuildable(self, name: str, index: int) -> bool:
        """Whether running the cell again is the way to the value.

        It is not for what the user typed in, nor for what ranks that have gone computed.
        """
        cell = self.cells[index]
        if self.names[index].asks or (cell.distributed and cell.number not in self.sent):
            return not self.has_value(name)
        return True

    def is_given(self, name: str, binder: int | None) -> bool:
        """Whether the ranks have a name's value from the user, and no cell has bound it since."""
        bound = 0 if binder is None else self.cells[binder].number
        return bound <= self.given.get(name, -1)

    def reach(self, index: int, *, calls: bool) -> dict[str, int | None]:
        """The names needed when a cell runs, functions that it may call included, each with its binder."""
        own = self.names[index]
        todo = list(own.uses | own.later if calls else own.uses)
        found: dict[str, int | None] = {}
        while todo:
            name = todo.pop()
            if name in found or name in BUILTINS:
                continue
            binder = self.binder(name, index)
            found[name] = binder
            if binder is not None:
                todo += self.names[binder].later
        return found

    def providers(self, name: str, binder: int, before: int) -> Iterator[int]:
        yield binder
        for index in range(binder + 1, before):
            if name in self.names[index].changes:
                yield index

    def needed(self, index: int, *, calls: bool = False) -> frozenset[int]:
        if index in self._needed:
            return self._needed[index]
        self._needed[index] = (
            frozenset()
        )  # a cell can only need earlier ones: no cycles, but be safe
        found: set[int] = set()
        for name, binder in self.reach(index, calls=calls).items():
            if self.is_given(name, binder):
                later = (i for i in range(index) if self.cells[i].number > self.given[name])
                found.update(i for i in later if name in self.names[i].changes)
            elif binder is None:
                stars = [i for i in range(index) if self.names[i].star or self.cells[i].star]
                found.update(stars)
                if not stars and self.has_value(name):
                    self.push.add(name)
            elif not self.rebuildable(name, binder):
                self.push.add(name)
            else:
                found.update(self.providers(name, binder, index))
        for provider in list(found):
            found |= self.needed(provider)
        self._needed[index] = frozenset(found)
        return self._needed[index]

    def plan(self, on_ranks: Sequence[int]) -> Needs:
        last = len(self.cells) - 1
        needed = sorted(self.needed(last, calls=True))
        reach = self.reach(last, calls=True)
        run = {index for index in needed if self.cells[index].number not in self.sent}
        while (more := self._stale(run, needed, on_ranks)) - run:
            run |= more
        changed = set(self.names[last].binds | self.names[last].changes)
        for binder in {b for b in reach.values() if b is not None}:
            changed |= self.names[binder].changes_later
        changed |= self.names[last].changes_later
        return Needs(
            tuple(self.cells[i].number for i in needed),
            tuple(self.cells[i].number for i in sorted(run)),
            frozenset(self.push),
            frozenset(reach),
            frozenset(changed),
        )

    def _stale(self, run: set[int], needed: Sequence[int], on_ranks: Sequence[int]) -> set[int]:
        """Cells to run again, because a name on the ranks would stand for another cell's value."""
        bound: dict[str, int] = {}
        for number in on_ranks:
            if number in self.place:
                bound.update(
                    dict.fromkeys(self.names[self.place[number]].binds, self.place[number])
                )
        more: set[int] = set()
        last = len(self.cells) - 1
        for index in [*sorted(run), last]:
            for name, binder in self.reach(index, calls=index == last).items():
                if binder is None or self.is_given(name, binder):
                    continue
                if name in self.push or bound.get(name) == binder:
                    continue
                more.update(i for i in self.providers(name, binder, index) if i in needed)
            bound.update(dict.fromkeys(self.names[index].binds, index))
        return more


# Names of one cell


@lru_cache(maxsize=2048)
def names_of(source: str) -> Names:
    """What a cell does to names; nothing, where it is not Python."""
    try:
        tree = compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return Names()
    assert isinstance(tree, ast.Module)
    scan = _Scan()
    scan.block(tree.body)
    binds = frozenset(scan.binds)
    later = frozenset(scan.later)
    uses = frozenset(scan.uses)
    if scan.functions & scan.loads:  # its own functions are called: what they use is used at once
        uses |= later - binds
    return Names(
        binds,
        uses,
        later - (binds - scan.maybe),
        frozenset(scan.changes),
        frozenset(scan.changes_later),
        frozenset(scan.modules),
        scan.star,
        bool(scan.loads & ASKING),
    )


@dataclass
class _Scan:
    """Walks a cell's statements in order and keeps what is bound so far."""

    binds: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    changes_later: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    aliases: dict[str, str] = field(default_factory=dict)
    star: bool = False

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in (*node.decorator_list, *defaults(node.args)):
                    self.expression(part)
                self.function(node.name, node)
            case ast.ClassDef():
                for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
                    self.expression(part)
                self.function(node.name, node)
                for name in immediate_in_class(node) - self.bound:
                    self.use(name)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    if alias.name == "*":
                        self.star = True
                        continue
                    name = alias.asname or alias.name.partition(".")[0]
                    self.bind(name)
                    self.modules.add(name)
            case ast.If(test=test, body=body, orelse=orelse):
                self.expression(test)
                before = set(self.bound)
                self.block(body)
                one, self.bound = self.bound, before
                self.block(orelse)
                self.maybe |= one ^ self.bound
                self.bound = one & self.bound
            case ast.For() | ast.AsyncFor():
                self.expression(node.iter)
                self.alias(node.target, node.iter)
                self.target(node.target)
                self.block((*node.body, *node.orelse))
            case ast.While(test=test, body=body, orelse=orelse):
                self.expression(test)
                self.block((*body, *orelse))
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self.expression(item.context_expr)
                    if item.optional_vars is not None:
                        self.target(item.optional_vars)
                self.block(body)
            case ast.Try() | ast.TryStar():
                self.block(node.body)
                for handler in node.handlers:
                    if handler.type is not None:
                        self.expression(handler.type)
                    self.block(handler.body)
                self.block((*node.orelse, *node.finalbody))
            case ast.Match(subject=subject, cases=cases):
                self.expression(subject)
                for case in cases:
                    for piece in ast.walk(case.pattern):
                        if isinstance(piece, ast.expr):
                            self.expression(piece)
                        captured = getattr(piece, "name", None) or getattr(piece, "rest", None)
                        if captured:
                            self.bind(captured)
                    if case.guard is not None:
                        self.expression(case.guard)
                    self.block(case.body)
            case ast.Assign(targets=targets, value=value):
                self.expression(value)
                for target in targets:
                    self.alias(target, value)
                    self.target(target)
            case ast.AugAssign(target=target, value=value):
                self.expression(value)
                if isinstance(target, ast.Name):
                    self.use(target.id)
                self.target(target)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self.expression(annotation)
                if value is not None:
                    self.expression(value)
                    self.target(target)
            case ast.Delete(targets=targets):
                for target in targets:
                    if not isinstance(target, ast.Name):
                        self.target(target)
            case ast.Expr(value=value):
                self.expression(value)
                self.changes |= {
                    self.source_of(n) for n in changed_by(value, self.is_module)
                } - self.own()
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)

    def own(self) -> set[str]:
        return self.binds & self.bound

    def is_module(self, name: str) -> bool:
        # A name from another cell cannot be told from a module here; common aliases can.
        return name in self.modules or name in COMMON_MODULES

    def source_of(self, name: str) -> str:
        """`layer` of `for layer in base.layers` stands for `base`."""
        for _ in range(8):
            if name not in self.aliases:
                break
            name = self.aliases[name]
        return name

    def alias(self, target: ast.expr, value: ast.expr) -> None:
        base = root(value)
        if isinstance(target, ast.Name) and base is not None and base != target.id:
            self.aliases[target.id] = base

    def use(self, name: str) -> None:
        self.loads.add(name)
        if name not in self.bound:
            self.uses.add(name)

    def bind(self, name: str) -> None:
        self.binds.add(name)
        self.bound.add(name)

    def target(self, node: ast.expr) -> None:
        match node:
            case ast.Name(id=name):
                self.bind(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.target(part)
            case ast.Starred(value=value):
                self.target(value)
            case _:
                self.expression(node)
                base = root(node)
                if base is not None and self.source_of(base) not in self.own():
                    self.changes.add(self.source_of(base))

    def function(self, name: str, node: ast.AST) -> None:
        free, changed = free_names(node)
        self.later |= free - {name}
        self.changes_later |= changed & free
        self.bind(name)
        self.functions.add(name)

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Lambda(args=args):
                for part in defaults(args):
                    self.expression(part)
                for name in free_names(node)[0]:
                    self.use(name)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for name in free_names(node)[0]:
                    self.use(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                self.expression(value)
                self.bind(name)
            case ast.Name(id=name, ctx=ast.Load()):
                self.use(name)
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.expression(child)
                    elif isinstance(child, ast.keyword):
                        self.expression(child.value)


COMMON_MODULES = frozenset(
    [
        "np",
        "numpy",
        "tf",
        "tensorflow",
        "plt",
        "pd",
        "pandas",
        "sns",
        "os",
        "sys",
        "keras",
        "random",
        "warnings",
        "logging",
        "K",
        "sklearn",
        "scipy",
        "tqdm",
        "time",
        "math",
        "json",
        "re",
    ]
)


def root(node: ast.AST) -> str | None:
    """`x` of `x`, `x.a`, `x[i].b`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def changed_by(node: ast.expr, is_module: Callable[[str], bool]) -> Iterator[str]:
    """The names whose objects a statement `x.f(…)` changes."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute):
        base, last = root(node.func), node.func.attr
        parts = chain(node.func)
        if last in IN_PLACE and node.args and (first := root(node.args[0])) is not None:
            yield first
        if base is None:
            return
        if is_module(base):
            if any(SETTING.match(part) for part in parts):
                yield base
        elif last not in LOOKING:
            yield base
    elif isinstance(node.func, ast.Name) and node.func.id in IN_PLACE and node.args:
        first = root(node.args[0])
        if first is not None:
            yield first


def chain(node: ast.AST) -> list[str]:
    parts = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.value
    return parts


def defaults(args: ast.arguments) -> list[ast.expr]:
    return [*args.defaults, *(d for d in args.kw_defaults if d is not None)]


def immediate_in_class(node: ast.ClassDef) -> set[str]:
    """What a class's body uses while it is made, its methods' bodies not included."""
    found: set[str] = set()
    own: set[str] = set()
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            parts: list[ast.AST] = [*statement.decorator_list, *defaults(statement.args)]
            own.add(statement.name)
        else:
            parts = [statement]
        for part in parts:
            for name in ast.walk(part):
                if isinstance(name, ast.Name):
                    (own if isinstance(name.ctx, ast.Store) else found).add(name.id)
    return found - own


Scoped = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


def free_names(node: ast.AST) -> tuple[set[str], set[str]]:
    """The names that a function, class or comprehension takes from outside, and those of which it changes the objects."""
    loads: set[str] = set()
    stores: set[str] = set()
    outer: set[str] = set()
    changed: set[str] = set()
    inner: list[ast.AST] = []

    def walk(part: ast.AST) -> None:
        match part:
            case ast.Name(id=name, ctx=context):
                (loads if isinstance(context, ast.Load) else stores).add(name)
            case ast.Global(names=names):
                outer.update(names)
            case ast.arg(arg=name):
                stores.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                stores.update(a.asname or a.name.partition(".")[0] for a in aliases)
            case ast.ExceptHandler(name=str(name)):
                stores.add(name)
        if isinstance(part, (ast.Assign, ast.AugAssign)):
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            for target in targets:
                if not isinstance(target, ast.Name) and (base := root(target)) is not None:
                    changed.add(base)
        if isinstance(part, ast.Expr):
            changed.update(changed_by(part.value, COMMON_MODULES.__contains__))
        if isinstance(part, Scoped) and part is not node:
            if hasattr(part, "name"):
                stores.add(part.name)
            inner.append(part)
            return
        for child in ast.iter_child_nodes(part):
            walk(child)

    walk(node)
    stores -= outer
    free = (loads - stores) | outer
    for part in inner:
        names, changes = free_names(part)
        free |= names - stores
        changed |= changes - stores
    if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        free.discard(node.name)
    changed = (changed - stores) | outer
    return free - BUILTINS, changed - BUILTINS
