"""The names that a cell binds, uses and changes. One cell at a time, by its text only."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache

from ..source.parsing import UnparsableError, deep_recursion, parse_python

BUILTINS = frozenset(dir(builtins)) | {
    "display", "get_ipython", "exit", "quit", "In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "__name__", "__file__",
}  # fmt: skip

#: Methods that leave what they are called on as it is, as far as another process cares: they look,
#: write, draw, or train (what training leaves behind travels as weights, not by running it again).
READ_ONLY_METHODS = frozenset(
    {
        *("fit", "evaluate", "predict", "train_on_batch", "test_on_batch"),
        *("predict_on_batch", "apply_gradients", "minimize", "gradient", "summary"),
        *("save", "save_weights", "export", "write", "plot", "show", "head", "tail"),
        *("info", "describe", "hist", "imshow", "savefig", "to_csv", "numpy", "print"),
        *("get_config", "count", "items", "keys", "values", "close", "flush", "map"),
        *("batch", "shuffle", "take"),
    }
)
#: Methods that train.
TRAINING = frozenset({"apply_gradients", "fit", "minimize", "train_on_batch"})
#: Methods that change weights alone, which travel.
WEIGHT_SETTERS = frozenset({"assign", "assign_add", "assign_sub", "load_weights", "set_weights"})
#: Methods that do the same when they are called again.
IDEMPOTENT_METHODS = frozenset(
    {
        *("assign", "build", "clear", "compile", "load_weights", "set_weights"),
        *("setdefault", "sort", "update"),
    }
)
#: Calls of a module's functions that change how the module works from then on.
STATE_SETTERS = re.compile(
    r"^(set_|seed$|enable_|disable_|register|use$|filterwarnings$|simplefilter$|basicConfig$|run_functions_eagerly$|update$|environ$|append$|insert$|manual_seed$|clear_session$)"
)
#: Functions that change their first argument in place.
IN_PLACE = frozenset(
    {"shuffle", "fill_diagonal", "put", "copyto", "setattr", "heappush", "heapify"}
)
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp
Comprehensions = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
INPUT_FUNCTIONS = frozenset({"input", "getpass"})
#: Functions that give a new container, or an iterator, of what they are called with; those that give one of it.
CONTAINER_FUNCTIONS = frozenset(
    {
        *("chain", "cycle", "deque", "dict", "enumerate", "filter", "islice", "iter", "list"),
        *("reversed", "set", "sorted", "tqdm", "tuple", "zip"),
    }
)
ELEMENT_FUNCTIONS = frozenset({"getattr", "max", "min", "next", "vars"})
#: Methods that give out what they are called on holds.
ELEMENT_METHODS = frozenset({"get", "get_layer", "items", "pop", "popitem", "setdefault", "values"})


#: Instead of an argument's place: the function takes it from the notebook's names.
GLOBAL = ""
#: A function, an argument by its place or its name, and a name.
Argument = tuple[str, int | str, str]


@dataclass
class Names:
    """Names that a cell binds, uses and changes. Cells with the same text share one object.

    Attributes:
        binds: names that it binds at top level.
        uses: names that it uses at once, without those that it has bound itself.
        later: names that its functions use when they are called.
        surely: names that it binds on every path.
        changes: names whose objects it changes in place.
        reweighted_names: names whose objects get other weights, and no other change.
        grows: names whose objects it changes from what they were, so that running it twice is not the same as once.
        changes_later: names whose objects its functions change when they are called.
        passed_arguments: names whose objects it passes to functions: function, position or keyword, name. Each
            function that it calls is also listed with GLOBAL for both.
        mutated_parameters: parameters that its functions change in place: function, position or keyword, parameter. Also
            global names that they change, with GLOBAL as position. Functions that train are left out.
        modules: names that it imports.
        star: whether it imports all names of some module.
        asks: whether it asks the user for input.
    """

    binds: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    surely: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    reweighted_names: set[str] = field(default_factory=set)
    grows: set[str] = field(default_factory=set)
    changes_later: set[str] = field(default_factory=set)
    passed_arguments: set[Argument] = field(default_factory=set)
    mutated_parameters: set[Argument] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    star: bool = False
    asks: bool = False


@lru_cache(maxsize=2048)
def names_of(source: str) -> Names:
    """Return the names that a cell binds, uses and changes; empty sets if its text is not Python.

    Results are cached by text: callers must not modify them.
    """
    try:
        tree = parse_python(source)
    except UnparsableError:
        return Names()
    scan = _Scan()
    with deep_recursion():
        scan.visit_all(*tree.body)
    names = scan.names
    if scan.functions & scan.loads:  # its own functions are called: what they use is used at once
        names.uses |= names.later - names.binds
    names.surely = names.binds - scan.maybe
    names.reweighted_names -= names.changes
    names.grows |= names.uses & names.binds
    names.asks = bool(scan.loads & INPUT_FUNCTIONS)
    return names


@dataclass
class _Scan(ast.NodeVisitor):
    """Walks the statements of a cell, a function or a class in order, and records what is bound so far.

    Attributes:
        changed: names, local ones included, whose objects it changes by more than their weights.
        outer: names that it declares global.
        caught: names of exceptions, bound in their handlers only.
    """

    names: Names = field(default_factory=Names)
    bound: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    outer: set[str] = field(default_factory=set)
    caught: set[str] = field(default_factory=set)
    aliases: Aliases = field(default_factory=dict)

    def visit_all(self, *nodes: ast.AST | None) -> None:
        """Visit some nodes in order; None is skipped."""
        for node in nodes:
            if node is not None:
                self.visit(node)

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.visit_all(*node.decorator_list, *default_values(node.args))
        self.names.mutated_parameters |= find_mutated_parameters(node, self.add_function(node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.visit_all(*node.decorator_list, *node.bases, *(k.value for k in node.keywords))
        inner = self.add_function(node)
        for name in inner.loads - inner.local_names():
            self.use_name(name)

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.names.star = True
                continue
            name = alias.asname or alias.name.partition(".")[0]
            self.bind_name(name)
            self.names.modules.add(name)

    visit_ImportFrom = visit_Import

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        before = set(self.bound)
        self.visit_all(*node.body)
        one, self.bound = self.bound, before
        self.visit_all(*node.orelse)
        self.maybe |= one ^ self.bound
        self.bound = one & self.bound

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.aliases = loop_aliases(node.target, node.iter, self.aliases)
        self.bind_target(node.target)
        self.visit_all(*node.body, *node.orelse)

    visit_AsyncFor = visit_For

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.bind_target(item.optional_vars)
        self.visit_all(*node.body)

    visit_AsyncWith = visit_With

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name is not None:
            self.caught.add(node.name)
        self.visit_all(node.type, *node.body)

    def visit_Global(self, node: ast.Global) -> None:
        self.outer.update(node.names)

    def visit_match_case(self, node: ast.match_case) -> None:
        for piece in ast.walk(node.pattern):
            if isinstance(piece, ast.expr):
                self.visit(piece)
            captured = getattr(piece, "name", None) or getattr(piece, "rest", None)
            if captured:
                self.bind_name(captured)
        self.visit_all(node.guard, *node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self.names.passed_arguments |= find_passed_arguments(node.value, self.aliases)
        before = self.aliases
        for target in node.targets:
            self.names.grows |= changed_by_store(target, before) & all_root_names(
                node.value, before
            )
            self.aliases = assigned_aliases(target, node.value, self.aliases)
            self.bind_target(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.use_name(node.target.id)
        self.names.grows |= changed_by_store(node.target, self.aliases) - self.names_bound_so_far()
        self.bind_target(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit_all(node.annotation, node.value)
        if node.value is not None:
            self.bind_target(node.target)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.bind_target(target)

    def visit_Expr(self, node: ast.Expr) -> None:
        self.visit(node.value)
        self.names.passed_arguments |= find_passed_arguments(node.value, self.aliases)
        changed = changed_by_call(node.value, self.aliases, self.is_module)
        call = node.value.elt if isinstance(node.value, Comprehensions) else node.value
        match call:
            case ast.Call(func=ast.Attribute(attr=method)):
                pass
            case _:
                method = ""
        if method not in IDEMPOTENT_METHODS:
            self.names.grows |= changed - self.names_bound_so_far()
        if method in WEIGHT_SETTERS:
            self.names.reweighted_names |= changed - self.names_bound_so_far()
        else:
            self.change_names(changed)

    # Expressions

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit_all(*default_values(node.args))
        self.visit_nested_scope(node)

    def visit_nested_scope(self, node: ast.expr) -> None:
        """Count the free names of a comprehension or lambda as used here."""
        for name in scan_scope(node).free_names():
            self.use_name(name)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_nested_scope

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.bind_name(node.target.id)

    def visit_Name(self, node: ast.Name) -> None:
        (self.use_name if isinstance(node.ctx, ast.Load) else self.bind_name)(node.id)

    def visit_arg(self, node: ast.arg) -> None:
        self.bind_name(node.arg)
        self.visit_all(node.annotation)

    # What they do to names

    def names_bound_so_far(self) -> set[str]:
        """Return the names that the statements visited so far have bound, on the current branch."""
        return self.names.binds & self.bound

    def local_names(self) -> set[str]:
        """Return the names that belong to this scope: bound anywhere in it, and not declared global."""
        return (self.names.binds | self.caught) - self.outer

    def free_names(self) -> set[str]:
        """Return the names that this scope takes from outside, without Python's builtins."""
        return (self.loads | self.names.later | self.outer) - self.local_names() - BUILTINS

    def names_changed_outside(self) -> set[str]:
        """Return the names from outside this scope whose objects or bindings it changes."""
        changed = (self.changed | self.names.changes_later) - self.local_names() | self.outer
        return changed - BUILTINS

    def is_module(self, name: str) -> bool:
        """Whether a name is imported in this cell, or is a common alias of a module, such as `np`."""
        # A name from another cell cannot be told from a module here; common aliases can.
        return name in self.names.modules or name in COMMON_MODULES

    def use_name(self, name: str) -> None:
        """Record that a name is read; it counts as free if it has not been bound before."""
        self.loads.add(name)
        if name not in self.bound:
            self.names.uses.add(name)

    def bind_name(self, name: str) -> None:
        """Record that a name is bound."""
        self.names.binds.add(name)
        self.bound.add(name)

    def change_names(self, changed: Set[str]) -> None:
        """Record that the objects of some names are changed in place."""
        self.changed |= changed
        self.names.changes |= changed - self.names_bound_so_far()

    def bind_target(self, node: ast.expr) -> None:
        """Record what an assignment to a target binds (names) or changes (the owner of `x.a` or `x[i]`)."""
        match node:
            case ast.Name(id=name):
                self.bind_name(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.bind_target(part)
            case ast.Starred(value=value):
                self.bind_target(value)
            case _:
                self.visit(node)
                self.change_names(changed_by_store(node, self.aliases))

    def add_function(self, node: Definition) -> _Scan:
        """Bind a function or class, record the names that it uses later, and return the scan of its scope."""
        inner = scan_scope(node)
        free = inner.free_names() - {node.name}
        self.names.later |= free
        self.names.changes_later |= inner.names_changed_outside() & free
        self.bind_name(node.name)
        self.functions.add(node.name)
        return inner


def scan_scope(node: ast.AST) -> _Scan:
    """Scan the body of a function, class, lambda or comprehension as a scope, and return the scan."""
    scan = _Scan()
    scan.visit_all(*ast.iter_child_nodes(node))
    return scan


COMMON_MODULES = frozenset(
    {
        *("np", "numpy", "tf", "tensorflow", "plt", "pd", "pandas", "sns", "os", "sys"),
        *("keras", "random", "warnings", "logging", "K", "sklearn", "scipy", "tqdm"),
        *("time", "math", "json", "re"),
    }
)


@dataclass(frozen=True)
class Alias:
    """What a name stands for beside its own object: the objects of other names, or parts of them.

    Attributes:
        held: it is a new container, whose parts alone are theirs.
    """

    sources: frozenset[str]
    held: bool = False


Aliases = Mapping[str, Alias]


def root_names(node: ast.expr, aliases: Aliases) -> frozenset[str]:
    """Return the names whose objects an expression may be, hold or return, aliases followed.

    Examples: `x` of `x[i].b` and of `x.values()`, `x` and `y` of `enumerate([x, y])`.
    """
    parts: Sequence[ast.expr] = ()
    match node:
        case ast.Name(id=name):
            return aliases[name].sources | {name} if name in aliases else frozenset({name})
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            parts = [inner]
        case ast.NamedExpr(value=inner) | ast.Await(value=inner):
            parts = [inner]
        case ast.Call(func=ast.Attribute(attr=method, value=inner)) if method in ELEMENT_METHODS:
            parts = [inner]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
            parts = arguments if name in CONTAINER_FUNCTIONS | ELEMENT_FUNCTIONS else ()
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            pass
        case ast.BoolOp(values=parts) | ast.Dict(values=parts):
            pass
        case ast.IfExp(body=body, orelse=orelse):
            parts = [body, orelse]
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return root_names(
                node.elt, comprehension_aliases(node, aliases)
            ) - comprehension_targets(node)
    return frozenset[str]().union(*(root_names(part, aliases) for part in parts))


def all_root_names(node: ast.expr, aliases: Aliases) -> frozenset[str]:
    """Return all names that an expression uses, and the names whose objects these stand for."""
    used = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return frozenset[str]().union(*(root_names(part, aliases) for part in used))


def assigned_aliases(target: ast.expr, value: ast.expr, before: Aliases) -> Aliases:
    """Return the aliases after the assignment of `value` to `target`; `before` is not modified."""
    match target, value:
        case ast.Name(), ast.Name(id=name) if name in before:
            held = before[name].held
        case ast.Name(), ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            held = name in CONTAINER_FUNCTIONS
        case ast.Name(), _:
            held = isinstance(value, (ast.List, ast.Tuple, ast.Set, ast.Dict, *Comprehensions))
        case _:
            held = False
    return _bind_aliases(target, root_names(value, before), held, before)


def loop_aliases(target: ast.expr, value: ast.expr, before: Aliases) -> Aliases:
    """Return the aliases in the body of a loop over `value`; `before` is not modified.

    In `for layer in base.layers`, `layer` is an alias of a part of `base`.
    """
    both = [value.left, value.right] if isinstance(value, ast.BinOp) else [value]
    found = frozenset[str]().union(*(root_names(one, before) for one in both))
    return _bind_aliases(target, found, False, before)


def comprehension_aliases(node: Comprehension, aliases: Aliases) -> Aliases:
    """Return the aliases within a comprehension: those around it, and those of its loop variables."""
    for loop in node.generators:
        aliases = loop_aliases(loop.target, loop.iter, aliases)
    return aliases


def comprehension_targets(node: Comprehension) -> frozenset[str]:
    """Return the names of a comprehension's loop variables."""
    return frozenset().union(*(assigned_names(loop.target) for loop in node.generators))


def assigned_names(target: ast.expr) -> frozenset[str]:
    """Return the names that an assignment to a target binds; not `x` of `x[i]`."""
    names = (part for part in ast.walk(target) if isinstance(part, ast.Name))
    return frozenset(part.id for part in names if isinstance(part.ctx, ast.Store))


def _bind_aliases(
    target: ast.expr, sources: frozenset[str], held: bool, before: Aliases
) -> Aliases:
    """Return the aliases after a target is bound to an object that the names in `sources` stand for.

    Args:
        held: whether the object is a new container, so that only its elements belong to `sources`.
    """
    names = assigned_names(target) if isinstance(target, (ast.Name, ast.Tuple, ast.List)) else ()
    kept = {name: alias for name, alias in before.items() if name not in names}
    return kept | {name: Alias(sources - {name}, held) for name in names if sources - {name}}


def changed_by_store(target: ast.expr, aliases: Aliases) -> frozenset[str]:
    """Return the names whose objects change when `x.a` or `x[i]` is stored; none for other targets."""
    if not isinstance(target, (ast.Attribute, ast.Subscript)):
        return frozenset()
    return mutated_names(target.value, aliases)


def mutated_names(node: ast.expr, aliases: Aliases) -> frozenset[str]:
    """Return the names whose objects change when the value of an expression is changed in place."""
    match node:
        case ast.Name(id=name) if name in aliases and aliases[name].held:
            return frozenset({name})
    return root_names(node, aliases)


def changed_by_call(
    node: ast.expr, aliases: Aliases, is_module: Callable[[str], bool]
) -> frozenset[str]:
    """Return the names whose objects the expression statement `node` may change: `x.f(…)`, `shuffle(x)`.

    Args:
        is_module: whether a name is a module; only calls that look like setters change a module.
    """
    changed = frozenset[str]()
    match node:
        case ast.Call(func=ast.Attribute(attr=last) as called):
            sets = (
                last not in READ_ONLY_METHODS,
                any(STATE_SETTERS.match(part) for part in attribute_chain(called)),
            )
            changed |= {n for n in changed_by_store(called, aliases) if sets[is_module(n)]}
        case ast.Call(func=ast.Name(id=last)):
            pass
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():  # a loop in one line
            within = comprehension_aliases(node, aliases)
            return changed_by_call(node.elt, within, is_module) - comprehension_targets(node)
        case _:
            return changed
    if last in IN_PLACE and node.args:
        changed |= mutated_names(node.args[0], aliases)
    return changed


def find_passed_arguments(node: ast.expr, aliases: Aliases) -> frozenset[Argument]:
    """Return the names that the statement `f(x, y=z)` passes, each with function and parameter.

    The function itself is included, with GLOBAL for parameter and name. Calls of methods yield nothing.
    """
    if isinstance(node, Comprehensions):
        within, own = comprehension_aliases(node, aliases), comprehension_targets(node)
        return frozenset(
            one for one in find_passed_arguments(node.elt, within) if one[2] not in own
        )
    match node:
        case ast.Call(func=ast.Name(id=called), args=arguments, keywords=named):
            by_name = [(each.arg, each.value) for each in named if each.arg is not None]
            places: list[tuple[int | str, ast.expr]] = [*enumerate(arguments), *by_name]
            given = ((called, k, name) for k, one in places for name in root_names(one, aliases))
            return frozenset({*given, (called, GLOBAL, GLOBAL)})
    return frozenset()


def find_mutated_parameters(
    node: ast.FunctionDef | ast.AsyncFunctionDef, inner: _Scan
) -> frozenset[Argument]:
    """Return the parameters and globals that a function changes in place; none if it trains.

    Args:
        inner: the scan of the function's scope.
    """
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    if any(isinstance(call.func, ast.Attribute) and call.func.attr in TRAINING for call in calls):
        return frozenset()
    places = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    names = {*places, *(each.arg for each in node.args.kwonlyargs)} & inner.changed
    by_place = ((node.name, place, each) for place, each in enumerate(places) if each in names)
    outside = ((node.name, GLOBAL, name) for name in inner.names_changed_outside())
    return frozenset({*by_place, *((node.name, each, each) for each in names), *outside})


def attribute_chain(node: ast.AST) -> list[str]:
    """Return the attributes in `x.a[i].b`, last first: `b`, `a`."""
    parts = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.value
    return parts


def default_values(args: ast.arguments) -> list[ast.expr]:
    """Return the default values in a parameter list."""
    return [*args.defaults, *(d for d in args.kw_defaults if d is not None)]
