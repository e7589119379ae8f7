"""What several rules ask of a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from ...analysis.effects import asks_files, changes_files, opens_for, writes
from ...analysis.index import ELEMENT, Binding
from ...analysis.library import Kind, Value
from ...analysis.reach import leaving_tests
from ...analysis.syntax import argument, has_star, method, names_in, nodes_in
from ...analysis.uniformity import is_uniform, stored, tests_of
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.keras_loops import fit_argument
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.updates import Update
from .context import Context

#: Libraries that are known not to train what they are handed.
KNOWN_LIBRARIES = (
    "tensorflow.",
    "builtins.",
    "numpy.",
    "matplotlib.",
    "sklearn.",
    "pandas.",
    "horovod.",
    "argparse.",
    "collections.",
    "copy.",
    "dataclasses.",
    "types.",
)


#: What a function is called that trains, and what runs a module that is called so.
TRAINS = re.compile(
    r"^(?!(?:load|get|make|create|read|prepare|split|build|is|plot|show|parse|set)_)"
    r"(?:\w*_)?(?:re|pre|my)?_?(?:train|training|fit|fine_?tune|trainer)"
    r"(?:_?(?:models?|networks?|nets?|loop|epochs?|steps?|all|main|and_\w+))?$",
    re.IGNORECASE,
)
RUNS = frozenset({"call", "execute", "launch", "loop", "main", "run", "start"})


#: What saves models, and what of a program has methods that do.
SAVING = ("tensorflow.saved_model.save", "tensorflow.keras.models.save_model")
SAVED = (Role.MODEL, Role.CHECKPOINT, Role.CHECKPOINT_MANAGER)
#: The methods that set weights from a checkpoint.
RESTORES = ("restore", "read", "load_weights")
#: Libraries that train a model as they create it.
MODEL_MAKERS = ("tflite_model_maker.", "mediapipe_model_maker.")

#: What people call the answer of an environment that an episode is over.
ENDED = re.compile(r"done|terminat|truncat|terminal|over|finish|dead", re.IGNORECASE)
#: The number of ranks by which reasons give an example.
RANKS = 4
#: What an optimizer has its rate under.
RATES = ("learning_rate", "lr")


def trains_by_name(name: str) -> bool:
    """Whether a function trains by its qualified name: `lib.train_model`, `mytrain.run`, `lib.Trainer.run`."""
    owner, _, function = name.rpartition(".")
    return (
        bool(TRAINS.match(function))
        or (function in RUNS and any(map(TRAINS.match, owner.split("."))))
        or (function == "create" and owner.startswith(MODEL_MAKERS))
    )


def saves(context: Context, call: cst.Call) -> bool:
    """Whether a call saves a model, its weights or a checkpoint."""
    values = context.values
    if values.qualified(call.func) in SAVING:
        return True
    return isinstance(call.func, cst.Attribute) and any(
        method(call)
        in (values.library.effects.writing_methods.get(kind, frozenset()) - {"summary"})
        for kind in values.kinds(call.func.value) & {*SAVED}
    )


def callback_values(context: Context, call: cst.Call) -> frozenset[Value]:
    """The callbacks that a `fit` may be given, one by one."""
    arg = fit_argument(call, "callbacks")
    if arg is None:
        return frozenset()
    each = context.values.of(arg.value, (-1,))
    return each | frozenset(v for v in context.values.of(arg.value) if v.kind is Role.CALLBACK)


def is_guarded(context: Context, node: cst.CSTNode) -> bool:
    """Whether the node already runs on rank 0 alone."""
    return any(
        isinstance(ancestor, (cst.If, cst.IfExp))
        and ".rank()" in context.module.text(ancestor.test)
        for ancestor in context.module.ancestors(node)
    )


def is_own_schedule(context: Context, value: Value) -> bool:
    """Whether a value is of a class of the program's own that inherits Keras' schedules."""
    return isinstance(value.node, cst.ClassDef) and any(
        name.endswith(".LearningRateSchedule")
        for name in context.values.classes.library_bases(value.node)
    )


def is_own_optimizer(context: Context, value: Value) -> bool:
    """Whether a value is of a class of the program's own that inherits an optimizer of Keras'."""
    return isinstance(value.node, cst.ClassDef) and any(
        map(tf_api.is_optimizer_class, context.values.classes.library_bases(value.node))
    )


def called(context: Context, call: cst.Call) -> frozenset[Value]:
    """What a call may call."""
    return context.values.of(context.values.calls.direct(call).func)


def optimizer_makers(context: Context, call: cst.Call) -> frozenset[Value]:
    """Of these, what makes optimizers: their classes, the program's own too, and what makes one of a configuration."""
    return frozenset(
        value
        for value in called(context, call)
        if (tf_api.makes_optimizer(value.name) and not value.name.endswith(".LossScaleOptimizer"))
        or (value.kind is Kind.CLASS and is_own_optimizer(context, value))
    )


def takes_rate(context: Context, call: cst.Call) -> bool:
    """Whether a call makes an optimizer of Keras by its rate, of whatever class; a function of the program may see to its rate itself."""
    made = called(context, call)
    own = any(value.kind in (Kind.CLASS, Kind.FUNCTION) for value in made)
    return not own and any(tf_api.optimizer(value.name) for value in made)


def rate_given(context: Context, call: cst.Call, position: int | None = 0) -> cst.Arg | None:
    """The rate that is given where an optimizer is made.

    Args:
        position: the place of the rate among the arguments; None where it has a name only.
    """
    direct = context.values.calls.direct(call)
    return argument(direct, "learning_rate", position) or argument(direct, "lr")


def made(context: Context, known: tf_api.Optimizer, scaled: bool = True) -> str:
    """A call that makes an optimizer with its default rate, scaled."""
    made_by = f"{context.tf}.keras.optimizers.{known.name}"
    return f"{made_by}({scaled_default(context, known, made_by) if scaled else ''})"


def scaled_default(context: Context, known: tf_api.Optimizer, made_by: str) -> str:
    """The argument by which an optimizer gets its default rate, scaled.

    Args:
        made_by: what is called to make it.
    """
    rate = known.learning_rate
    default = f"float({made_by}().learning_rate)" if rate is None else rate
    return f"learning_rate={default} * {context.backend.size}"


def is_optimizer(context: Context, node: cst.BaseExpression | None) -> bool:
    """An optimizer for what the roles say, or by the name under which Keras keeps it on a model."""
    pending, seen = [node], set[cst.CSTNode]()
    while pending:
        each = pending.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        named = isinstance(each, cst.Attribute) and each.attr.value == "optimizer"
        own = any(is_own_optimizer(context, value) for value in context.values.of(each))
        if named or own or context.values.may_be(each, Role.OPTIMIZER):
            return True
        pending += [source for source, part in context.values.flow.predecessors(each) if not part]
    return False


def is_rate(context: Context, node: cst.CSTNode) -> bool:
    """Whether an expression is the rate that an optimizer has, or the variable that it was given for one; not what the program's
    options have under such a name.
    """
    match node:
        case cst.Attribute(value=owner, attr=cst.Name(value=name)) if name in RATES:
            if is_optimizer(context, owner):
                return True
        case cst.Name() | cst.Attribute():
            pass
        case _:
            return False
    return bool(context.values.of(node) & _rate_variables(context))


def _rate_variables(context: Context) -> frozenset[Value]:
    """The variables that optimizers are given for their rates."""
    calls = (call for call in context.values.index.calls if takes_rate(context, call))
    given = [rate_given(context, call) for call in calls]
    values = (value for arg in given if arg for value in context.values.of(arg.value))
    return frozenset(value for value in values if value.kind is Role.VARIABLE)


def reads_rate(context: Context, rate: cst.BaseExpression) -> bool:
    """Whether a rate is computed from one that an optimizer has, and that is in proportion already."""
    return any(is_rate(context, node) for node in context.values.flow.backward_slice(rate))


def set_rates(context: Context) -> Iterator[cst.BaseExpression]:
    """Every value that is set as an optimizer's rate after the optimizer was made."""
    yield from _bound_rates(context, in_place=False)
    for call in context.values.index.calls:
        match call:
            case cst.Call(
                func=cst.Attribute(value=rate, attr=cst.Name("assign")), args=[value, *_]
            ) if is_rate(context, rate):
                yield value.value
            case cst.Call(args=[rate, value]) if context.values.qualified(
                call.func
            ) == "tensorflow.keras.backend.set_value" and is_rate(context, rate.value):
                yield value.value


def multiplied_rates(context: Context) -> Iterator[cst.BaseExpression]:
    """What an optimizer's rate is multiplied by, or changed otherwise, in place: `opt.learning_rate *= 0.5`."""
    return _bound_rates(context, in_place=True)


def _bound_rates(context: Context, in_place: bool) -> Iterator[cst.BaseExpression]:
    for name in RATES:
        for binding in context.values.index.attribute_bindings.get(name, ()):
            changed = isinstance(context.module.parent(binding.value), cst.AugAssign)
            whole = binding.receiver is not None and not binding.path
            if whole and changed == in_place and is_optimizer(context, binding.receiver):
                yield binding.value


def is_seen_by_rank(
    context: Context, expression: cst.BaseExpression, same: Collection[cst.CSTNode] = ()
) -> bool:
    """Whether a value comes from the losses of a rank's own batches, by way of a history or a metric too, and not of gradients, which
    are averaged.

    Args:
        same: what is the same on all ranks, whatever it is computed from.
    """
    seen, same = context.training.seen_by_rank, {*context.training.training_gradients, *same}
    pending, asked = [expression], set[cst.CSTNode]()
    while pending:
        for node in context.values.flow.computed_from(pending.pop(), same.__contains__):
            if node in seen:
                return True
            if node in asked:
                continue
            asked.add(node)
            pending += _stored_in(context, node)
            if isinstance(node, cst.Call) and method(node) == "result":
                pending += [arg.value for call in _feeding(context, node) for arg in call.args]
    return False


def decided_from(
    context: Context,
    *expressions: cst.BaseExpression,
    ends: Callable[[cst.CSTNode], bool] = lambda _: False,
) -> Iterator[cst.CSTNode]:
    """What expressions are computed from, and what decides which of its values each name in that has: the tests around where it is
    bound, and those that end the loop in which that stands, but for loops that train, which all ranks end alike.

    Args:
        ends: at which nodes it is not asked any further.
    """
    values, pending = context.values, [*expressions]
    asked: set[cst.CSTNode] = set()
    while pending:
        for node in values.flow.computed_from(pending.pop(), ends):
            if node in asked:
                continue
            asked.add(node)
            yield node
            if ends(node):
                continue
            if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
                pending += tests_of(values, node)
            pending += _stored_in(context, node)
            if isinstance(node, cst.Name):
                bound = (b for b in values.definitions.of(node) if isinstance(b, Binding))
                places = [b.place for b in bound if b.place is not None]
                pending += (test for place in places for test in _ending(context, place))
                pending += _starred(context, node)


def _starred(context: Context, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """What a parameter may be among what calls pass behind a star: `build(*best)`."""
    values = context.values
    for param in values.definitions.of(name):
        function = values.module.owner(param) if isinstance(param, cst.Param) else None
        for site in values.calls.sites(function) if function is not None else ():
            yield from (arg.value for arg in site.args if arg.star)


def _ending(context: Context, place: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests that end a loop around a place, or leave out a part of its turns, where no loop around it trains."""
    if context.alike.loops.isdisjoint(context.module.ancestors(place)):
        yield from leaving_tests(context.values, place, skips=True)


def _stored_in(context: Context, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the elements of a container that is named are set to."""
    if isinstance(node, cst.Name):
        entries = stored(context.values, node)
        yield from (value for container, value in entries if container is not node)


def _feeding(context: Context, result: cst.Call) -> Iterator[cst.Call]:
    """The calls that feed the metric whose result is asked for."""
    assert isinstance(result.func, cst.Attribute)
    metric = context.values.of(result.func.value)
    for call in context.values.index.calls:
        fed = call.func
        if method(call) == "update_state" and isinstance(fed, cst.Attribute):
            fed = fed.value
        if call is not result and any(v.node for v in metric & context.values.of(fed)):
            yield call


def is_of_environment(context: Context, test: cst.BaseExpression) -> bool:
    """Whether a test is of what an environment's `step` has given: `state, reward, done, info = env.step(action)`."""
    return any(
        isinstance(bound, Binding)
        and isinstance(bound.value, cst.Call)
        and method(bound.value) == "step"
        and bound.path[:1] >= (2,)
        for name in names_in(test)
        if ENDED.search(name.value)
        for bound in context.values.definitions.of(name)
    )


def taken_whole(context: Context) -> frozenset[cst.Call]:
    """The training steps that every rank takes on all their data.

    They change weights by a rate that nothing multiplies, the program's own or that of an optimizer in `kept_rates`: averaged over
    ranks that do the same, such a step is that of one process.
    """
    kept = kept_rates(context)
    by_scaled = {
        site.call
        for update, sites in context.training.own_updates
        if update.optimizer is not None and not _trained_by(context, update) <= kept
        for site in sites
    }
    return context.step_loops.whole - by_scaled


def kept_rates(context: Context) -> frozenset[cst.CSTNode]:
    """The calls that make optimizers by which nothing but steps on whole data is taken: their rates stay those of one process.

    That their rates are seen, and set nowhere else, belongs to it; a schedule's, which it gives to none but these.
    """
    undivided, values = context.step_loops.whole, context.values
    whole: set[cst.CSTNode] = set()
    others: set[cst.CSTNode] = set()
    if not undivided:
        return frozenset()
    for update, sites in context.training.own_updates:
        if update.optimizer is not None:
            taken = all(site.call in undivided for site in sites)
            (whole if taken else others).update(_trained_by(context, update))
    if context.training.keras.fits or context.training.keras.searches:
        others |= _compiled_with(context)
    for node in values.index.attributes:
        if node.attr.value in RATES:
            others |= _made(context, node.value)
            if isinstance(node.value, cst.Attribute) and node.value.attr.value == "optimizer":
                others |= _compiled_with(context)
    kept = {node for node in whole - others if _has_plain_rate(context, node)}
    by_schedule: dict[cst.CSTNode, set[cst.CSTNode]] = {}
    for call in values.index.calls:
        if takes_rate(context, call):
            for schedule in _schedules(context, call):
                by_schedule.setdefault(schedule, set()).add(call)
    return frozenset(kept.difference(*(made for made in by_schedule.values() if made - kept)))


def kept_schedules(context: Context) -> frozenset[cst.CSTNode]:
    """The calls that make the schedules of the optimizers whose rates stay those of one process."""
    return frozenset(s for made in kept_rates(context) for s in _schedules(context, made))


def _trained_by(context: Context, update: Update) -> frozenset[cst.CSTNode]:
    """What makes the optimizer of an update: of one that a model takes, any that this program compiles a model with."""
    if update.is_of_model:
        return _compiled_with(context)
    return _made(context, update.optimizer) if update.optimizer is not None else frozenset()


def _compiled_with(context: Context) -> frozenset[cst.CSTNode]:
    """What makes the optimizers that models are compiled with; where one is not written there, the call."""
    found: set[cst.CSTNode] = set()
    for call in context.training.keras.compiles:
        arg = argument(call, "optimizer", 0)
        found |= _made(context, arg.value) if arg is not None else {call}
    return frozenset(found)


def _made(context: Context, optimizer: cst.BaseExpression) -> frozenset[cst.CSTNode]:
    """What makes an optimizer: calls, where it is seen; where it is not, an expression that is none."""
    made = frozenset(value.node or optimizer for value in context.values.of(optimizer))
    return made or frozenset({optimizer})


def _has_plain_rate(context: Context, made: cst.CSTNode) -> bool:
    """Whether this makes an optimizer of Keras, or names one, whose rate is a number, one of Keras' schedules, or its default."""
    if isinstance(made, cst.SimpleString):
        return True
    if not isinstance(made, cst.Call) or has_star(made):
        return False
    if tf_api.optimizer(context.values.qualified(made.func)) is None:
        return False
    rate = rate_given(context, made)
    plain = {Kind.CONSTANT, Kind.OTHER, Role.SCHEDULE}
    return rate is None or context.values.kinds(rate.value) <= plain


def _schedules(context: Context, made: cst.CSTNode) -> frozenset[cst.CSTNode]:
    """The calls that make the schedules which an optimizer is made with."""
    rate = rate_given(context, made) if isinstance(made, cst.Call) else None
    values = context.values.of(rate.value) if rate is not None else ()
    return frozenset(v.node for v in values if v.kind is Role.SCHEDULE and v.node is not None)


def divides(context: Context) -> bool:
    """Whether any data of a program are divided among the ranks."""
    data, loops = context.data, context.step_loops
    divided = (data.pipelines, data.fit_arrays, data.batch_sources, context.sharding.at_use)
    by_rows = map(context.rowwise.shares, loops.whole)
    return any((*divided, loops.cut, loops.drawn, *by_rows))


def own_line(context: Context, call: cst.Call) -> cst.SimpleStatementLine | None:
    """The line that holds this call as its only statement."""
    statement = context.module.parent(call)
    line = context.module.parent(statement) if isinstance(statement, cst.Expr) else None
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def fits_lambda(context: Context, expression: cst.BaseExpression) -> bool:
    """Whether an expression means the same behind `lambda:`, where it stands."""
    for node in nodes_in(expression):
        match node:
            case cst.Await() | cst.Yield() | cst.NamedExpr():
                return False
            case cst.Call(func=cst.Name("super"), args=[]):
                return False
    around = context.module.enclosing(expression, (cst.FunctionDef, cst.Lambda, cst.ClassDef))
    return not isinstance(around, cst.ClassDef)  # whose names a function in it does not see


def may_download(context: Context, call: cst.Call) -> bool:
    """Whether a call may download data into the folder of its library."""
    name = context.values.qualified(call.func)
    if tf_api.is_application(name):
        weights = argument(call, "weights", 1)
        return weights is None or context.values.kinds(weights.value) != {Kind.NONE}
    if name in context.values.library.effects.changing:
        return False
    return tf_api.downloads(name) or method(call) == "download_and_prepare"


def in_rank_zeros(context: Context, node: cst.CSTNode) -> bool:
    """Whether the node is worked out for a call that changes files, and so on rank 0 alone."""
    for ancestor in context.module.ancestors(node):
        if isinstance(ancestor, (cst.BaseStatement, cst.Lambda)):
            return False
        if isinstance(ancestor, cst.Call) and changes_files(context.values, ancestor):
            return True
    return False


# Where ranks come together

#: The tests that rank 0 must answer for all; None where no answer would do.
Asked = list[cst.BaseExpression] | None


def together(context: Context, node: cst.CSTNode) -> Asked:
    """The tests that rank 0 must answer for all, so that all ranks come to a node together; None where they may not."""
    function = context.module.function_of(node)
    if in_rank_zeros(context, node):
        return None
    asked = _between(context, node, lambda ancestor: ancestor is function)
    around = {*context.module.ancestors(node)}
    for leaf in _leaves_before(context, node, function):
        more = _between(context, leaf, around.__contains__)
        asked = None if asked is None or more is None else asked + more
    if asked is None or function is None:
        return asked
    run = _run_together(context, function)
    return None if run is None else list(dict.fromkeys(run + asked))


def _run_together(context: Context, function: cst.FunctionDef) -> Asked:
    """The same for the calls of a function: all that can be seen, and there must be one."""
    known = context.run_together
    if function not in known:
        known[function] = None  # where it calls itself, nothing is known
        compiled = function in context.training.compiled.functions
        if not compiled and function not in context.values.index.generators:
            found = [together(context, site) for site in _sites(context, function)]
            if found and all(each is not None for each in found):
                known[function] = list(dict.fromkeys(t for each in found for t in each or ()))
    return known[function]


def _sites(context: Context, function: cst.FunctionDef) -> list[cst.Call]:
    """The calls that run a function, those that make an object where it is `__init__`."""
    owner = context.module.class_of(function)
    made = owner if function.name.value == "__init__" else None
    calls = context.values.calls
    return [*calls.sites(function), *(calls.sites(made) if made is not None else ())]


def _between(context: Context, node: cst.CSTNode, ends: Callable[[cst.CSTNode], bool]) -> Asked:
    """What is asked by what stands around a node, up to where that ends."""
    asked: list[cst.BaseExpression] = []
    child = node
    for ancestor in context.module.ancestors(node):
        if ends(ancestor):
            break
        tests = _asked_around(context, ancestor, child)
        if tests is None:
            return None
        asked += tests
        child = ancestor
    return asked


def _asked_around(context: Context, ancestor: cst.CSTNode, child: cst.CSTNode) -> Asked:
    """The tests that decide whether all ranks come from a node to one that stands in it, and as often."""
    values = context.values
    alike = True
    match ancestor:
        case cst.If(test=test) | cst.IfExp(test=test):
            if child is test or is_uniform(values, test):
                return []
            return [test] if _is_for_rank_zero(context, test) else None
        case cst.While(test=test):
            alike = is_uniform(values, test)
        case cst.BooleanOperation(left=left):
            alike = child is left or is_uniform(values, left)
        case cst.For(iter=iterable):
            alike = child is iterable or _same_turns(context, iterable)
        case cst.ListComp(for_in=loop) | cst.SetComp(for_in=loop) | cst.DictComp(for_in=loop):
            alike = _comes_alike(context, loop)
        case cst.Match(subject=subject):
            alike = child is subject or is_uniform(values, subject)
        case cst.Lambda() | cst.GeneratorExp() | cst.ExceptHandler() | cst.ExceptStarHandler():
            alike = False
    return [] if alike else None


def _is_for_rank_zero(context: Context, test: cst.BaseExpression) -> bool:
    """Whether a test asks for files, and asks nothing that all ranks must work out."""
    values = context.values
    return (
        asks_files(values, test)
        and fits_lambda(context, test)
        and not any(
            may_download(context, call)
            or changes_files(values, call)
            or Kind.FUNCTION in values.kinds(call.func)
            for call in nodes_in(test)
            if isinstance(call, cst.Call)
        )
    )


def _same_turns(context: Context, iterable: cst.BaseExpression) -> bool:
    """Whether a loop over this takes as many turns on all ranks."""
    match iterable:
        case cst.Call(func=cst.Attribute(value=whole, attr=cst.Name("items" | "keys" | "values"))):
            iterable = whole
    return is_uniform(context.values, iterable, (ELEMENT,))


def _comes_alike(context: Context, loop: cst.CompFor) -> bool:
    """Whether a comprehension makes as many elements on all ranks."""
    inner = loop.inner_for_in
    return (
        _same_turns(context, loop.iter)
        and all(is_uniform(context.values, condition.test) for condition in loop.ifs)
        and (inner is None or _comes_alike(context, inner))
    )


def _leaves_before(
    context: Context, node: cst.CSTNode, function: cst.FunctionDef | None
) -> Iterator[cst.CSTNode]:
    """Where a rank may leave the function, or a loop around the node, before it comes there."""
    module = context.module
    loops = [a for a in module.ancestors(node) if isinstance(a, (cst.For, cst.While))]
    start = module.span(node).start
    for leaf in context.values.index.leaves:
        if module.function_of(leaf) is not function:
            continue
        around = [a for a in module.ancestors(leaf) if isinstance(a, (cst.For, cst.While))]
        if isinstance(leaf, cst.Return):
            if module.span(leaf).end < start or set(around) & set(loops):
                yield leaf
        elif around and around[0] in loops:
            yield leaf


def opens_to_write(context: Context, call: cst.Call) -> bool:
    """Whether an argument opens a file to write it, `json.dump(x, open(path, 'w'))`: the other ranks open, and write, nothing."""
    modes = (
        opens_for(context.values, arg.value) for arg in call.args if isinstance(arg.value, cst.Call)
    )
    return any(set(mode or "") & set("wax") for mode in modes)


def kept_writes(context: Context) -> Iterator[cst.Call]:
    """What is written and whose result is kept, a path: rank 0's is broadcast, so all ranks must come to it."""
    for call in context.values.index.calls:
        if isinstance(context.module.parent(call), cst.Expr) or opens_to_write(context, call):
            continue
        if writes(context.values, call) and not is_guarded(context, call):
            yield call


def restored_again(context: Context) -> Iterator[cst.Attribute]:
    """`manager.latest_checkpoint`, where it is restored after the manager may have saved: the others' managers have not."""
    values, module = context.values, context.module
    managers = [
        call.func.value
        for call in values.index.calls
        if method(call) == "save" and isinstance(call.func, cst.Attribute)
        if any(v.kind is Role.CHECKPOINT_MANAGER for v in values.of(call.func.value))
    ]
    for call in values.index.calls:
        if method(call) not in RESTORES or is_guarded(context, call):
            continue
        match call.args:
            case [cst.Arg(value=cst.Attribute(attr=cst.Name("latest_checkpoint")) as read), *_]:
                loops = [a for a in module.ancestors(call) if isinstance(a, cst.For | cst.While)]
                here = module.span(call).start
                if any(
                    module.span(saved).start < here
                    or any(loop in module.ancestors(saved) for loop in loops)
                    for saved in managers
                    if values.of(saved) & values.of(read.value)
                ):
                    yield read
