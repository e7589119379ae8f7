"""How lists, dictionaries and their entries scale."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import libcst as cst

from .exponents import ZERO, Exponent, Unknown, exponent_of
from .index import Binding, bound_expression, find_entry_container
from .records import is_string
from .scale_findings import Agreement, Opaque, Recurrence, Scale, Sink, number_of, unknown_scale
from .scale_state import StateUpdates
from .scale_walk import ScaleWalk
from .syntax import argument, find_entry_key, find_increment, is_string_literal, method, text_key
from .tree import nodes_in

#: The entry of a list that is one step before the last: one step is one in any unit.
LAST_BUT_ONE = 2


class Containers:
    """How the lists and dictionaries of one module scale."""

    def __init__(self, walk: ScaleWalk, state: StateUpdates) -> None:
        self._walk, self._state = walk, state
        self._values, self._module, self._index = walk.values, walk.values.module, walk.values.index
        self._entered: dict[tuple[object, str], Scale] = {}
        self._cut: list[tuple[cst.BaseExpression, list[cst.BaseExpression | None]]] = []

    def scale_dictionary(self, node: cst.Dict) -> Scale:
        """Return how a dictionary with numbers as keys scales, `{0: 0.1, 1000: 0.01}`. Entries of one with string keys scale by
        themselves.
        """
        written = [e for e in node.elements if isinstance(e, cst.DictElement)]
        if len(written) < len(node.elements) or any(is_string_literal(e.key) for e in written):
            return unknown_scale(node)
        keys, values = (
            tuple(self._walk.scale(side) for side in sides)
            for sides in ((e.key for e in written), (e.value for e in written))
        )
        return Scale(exponent_of(Unknown(node)), ZERO, None, keys, values)

    def scale_subscript(self, node: cst.Subscript) -> Scale:
        """Return how an entry, an element or a slice scales."""
        container = self._walk.scale(node.value)
        if (key := text_key(node)) is not None:
            return self._scale_entry(node, key)
        match node.slice:
            case [cst.SubscriptElement(slice=cst.Slice(lower=lower, upper=upper, step=stride)), *_]:
                self._cut.append((node.value, [lower, upper, stride]))
                length = self._slice_length(lower, upper, container.length)
                if stride is not None and length is not None and number_of(stride) not in (1, -1):
                    length = ZERO
                element = self._walk.element(container)
                return replace(container, length=length, element=element, items=())
            case [cst.SubscriptElement(slice=cst.Index(value=index))]:
                if (bounds := self._slice_made(index)) is not None:
                    length = self._slice_length(*bounds, container.length)
                    return replace(container, length=length, items=())
                if container.values:
                    return self._scale_lookup(container, index) or unknown_scale(node)
                number = number_of(index)
                if number is not None and self._is_counted(node):
                    return self._scale_entry(node, str(number))
                chosen = self._walk.scale(index)
                at = number if isinstance(number, int) else -1
                is_fixed = at >= 0 and not self._is_shifted(node.value)
                found = container.item(at) if is_fixed else self._walk.element(container)
                if not container.items and not self._is_set(node):
                    self._cut.append((node.value, [index]))
                if chosen.length is not None:
                    return replace(container, length=chosen.length, items=())
                if number is None:
                    self._note_access(node, index, chosen.value, container.length)
                return found or Scale(container.value)
        return Scale(container.value)

    def _is_shifted(self, container: cst.BaseExpression) -> bool:
        """Whether entries are taken from a list, so that others move to their positions."""
        return any(self._walk.recurrences.is_same(each, container) for each in self._shifted)

    @cached_property
    def _shifted(self) -> list[cst.BaseExpression]:
        """The lists from which entries are taken."""
        return [
            call.func.value
            for call in self._index.calls
            if method(call) in ("pop", "popleft") and isinstance(call.func, cst.Attribute)
        ]

    def _slice_made(
        self, index: cst.BaseExpression
    ) -> tuple[cst.BaseExpression | None, cst.BaseExpression] | None:
        """The bounds of `slice(i, i + n)`, where an index is one."""
        made = [value.node for value in self._values.of(index)]
        match made:
            case [cst.Call(args=[*lower, cst.Arg(value=upper)]) as call] if (
                self._walk.qualified(call) == "builtins.slice" and len(lower) < 2
            ):
                return (lower[0].value if lower else None), upper
        return None

    def _note_access(
        self,
        node: cst.Subscript,
        index: cst.BaseExpression,
        position: Exponent,
        length: Exponent | None,
    ) -> None:
        """Record an access by a computed number: a store, a lookup, or, in a sequence of unknown length, an opaque value.

        Args:
            position: the exponent of the number.
            length: the exponent of the sequence's length, if known.
        """
        is_set = self._is_set(node)
        is_dictionary = any(isinstance(v.node, cst.Dict) for v in self._values.of(node.value))
        if length is not None and not (is_set and is_dictionary):
            noted = self._walk.found.stores if is_set else self._walk.found.lookups
            noted.append(Sink(index, position, length, "looks up an entry by it"))
        elif not is_set:
            self._walk.found.opaque.append(Opaque(node, Unknown(node), (position,)))

    def _scale_lookup(self, dictionary: Scale, key: cst.BaseExpression) -> Scale | None:
        """Return how the value scales that a dictionary has under a computed number; None if it has no number keys."""
        keys = self._walk.element(dictionary)
        if keys is not None:
            self.note_lookup(key, keys)
        return self._walk.any_of(dictionary.values)

    def note_lookup(self, number: cst.BaseExpression, among: Scale) -> None:
        """Record that a number is compared with each of several. If those are literals, they are edited, else the number is."""
        exponents = self._walk.scale(number).value, among.value
        result = exponent_of(Unknown(number, "lookup"))
        agreement = Agreement("lookup", number, number, number, exponents, result)
        self._walk.found.agreements.append(agreement)

    def _is_set(self, node: cst.Subscript) -> bool:
        """Whether a subscript is the target of an assignment."""
        return self._module.is_set(node)

    def _slice_length(
        self,
        lower: cst.BaseExpression | None,
        upper: cst.BaseExpression | None,
        whole: Exponent | None,
    ) -> Exponent | None:
        """Return the exponent of a slice's length: of `x[i:i + n]`, `x[i * n:(i + 1) * n]`, `x[:n]`; None if unknown."""
        if upper is None:
            return whole
        text = self._module.text
        if lower is None:
            return self._walk.scale(upper).value
        if isinstance(upper, cst.Name):
            match self._walk.reaching(upper):
                case [Binding(value=cst.BinaryOperation() as end, path=(), adds=False)]:
                    upper = end
        if (added := find_increment(lower, upper)) is not None:
            return self._walk.scale(added).value
        match lower, upper:
            case cst.BinaryOperation(left=a, operator=cst.Multiply(), right=b), cst.BinaryOperation(
                left=c, operator=cst.Multiply(), right=d
            ):
                for size in (a, b):
                    if text(size) in (text(c), text(d)):
                        return self._walk.scale(size).value
        bounds = [_strip_sign(bound) for bound in (lower, upper)]
        is_written = all(isinstance(bound, cst.Integer) for bound in bounds)
        return whole if is_written else None

    def note_cuts(self) -> None:
        """Record the positions in sequences at which an entry or a slice begins or ends. One step is one in any unit."""
        for sequence, bounds in self._cut:
            scale = self._walk.scale(sequence)
            extended = sequence.left if isinstance(sequence, cst.BinaryOperation) else sequence
            if isinstance(extended, cst.Name):  # perhaps cut where it is set itself
                scale = self._walk.join_definitions(self._walk.reaching(extended), extended)
            if scale.length is None:
                continue
            for bound in filter(None, bounds):
                inner = _strip_sign(bound)
                if number_of(inner) in (0, 1) or number_of(bound) == -LAST_BUT_ONE:
                    continue
                value = self._walk.scale(inner).value
                if len(bounds) > 1 or self._is_written(inner):
                    cut = Sink(inner, value, scale.length, "cuts at so many")
                    self._walk.found.cuts.append(cut)
                elif inner is not bound:
                    entry = self._module.enclosing(inner, cst.Subscript) or inner
                    opaque = Opaque(entry, Unknown(entry), (), (scale.length,), (value,))
                    self._walk.found.opaque.append(opaque)

    def _is_written(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is a literal number, or a name of literal numbers."""
        made = [value.node for value in self._values.of(node)]
        return bool(made) and all(isinstance(each, cst.BaseNumber) for each in made)

    def _scale_entry(self, node: cst.Subscript, key: str) -> Scale:
        """Return how the entry `cfg["steps"]` of a dictionary scales: by what it is set to, and what is added to it."""
        entries = list(self._entries(node, key))
        if not entries or self._values.overridden.is_overridden(node):
            return self._scale_filled_entry(node.value, key) or self._walk.scale_unknown_source(
                node
            )
        identity = self._values.definitions.identity(node.value)
        of = identity if isinstance(identity, frozenset) else self._module.text(node.value)
        if (of, key) not in self._entered:
            value = exponent_of(Unknown(node, "entry"))
            self._entered[of, key] = Scale(value)
            starts = [self._walk.statement(place) for place, _, made in entries if made is None]
            for place, source, recurrence in entries:
                if recurrence is not None:
                    self._state.note_recurrence(place, value, recurrence, starts)
                    self._state.made[source] = value
                    continue
                scale = self._walk.scale(source)
                self._walk.note_flow(value, scale.value, place)
                if scale.length is not None:
                    filled = self._scale_filled_entry(node.value, key, starts)
                    self._entered[of, key] = replace(filled or scale, value=value)
        return self._entered[of, key]

    def _is_counted(self, node: cst.Subscript) -> bool:
        """Whether an element of a list is a counter, as in `count[0] += 1` within a function."""
        if not isinstance(node.value, cst.Name):
            return False
        text = self._module.text
        return any(
            isinstance(self._module.parent(target), cst.AugAssign) and text(target) == text(node)
            for target, added, part in self._index.stored_in(node.value)
            if not part and isinstance(number_of(added), int)
        )

    def _entries(
        self, node: cst.Subscript, key: str
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression, Recurrence | None]]:
        """Yield where an entry is set, its value, and the recurrence that computes it from its previous value, if any."""
        container, recurrences = node.value, self._walk.recurrences
        for entry in self._values.records.entries(container, key):
            yield entry.place, *self._split_recurrence(node, entry.value)
        for made in self._values.of(container) if key.isdecimal() else ():
            match made.node:
                case cst.List(elements=elements) if int(key) < len(elements):
                    yield made.node, elements[int(key)].value, None
        for target, value, part in self._index.stored_in(container):
            if (
                part
                or not _has_key(target, key)
                or not recurrences.is_same(target.value, container)
            ):
                continue
            statement = self._module.parent(target)
            if isinstance(statement, cst.AugAssign):
                yield target, value, recurrences.of_augmented(statement, target)
            else:
                yield target, *self._split_recurrence(node, value)

    def _split_recurrence(
        self, entry: cst.Subscript, value: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, Recurrence | None]:
        """Return what an entry is set to, without bounds around it, and the recurrence from its previous value, if any."""
        inner = self._walk.recurrences.within_bounds(value, entry)
        recurrence = self._walk.recurrences.of_entry(entry, inner)
        return (inner, recurrence) if recurrence is not None else (value, None)

    def scale_dictionary_method(self, held: Scale, call: cst.Call) -> Scale | None:
        """Return how `get`, `items`, `keys` or `values` of a dictionary with number keys scales; None for other methods."""
        keys, values = self._walk.element(held), self._walk.any_of(held.values)
        match method(call), call.args:
            case (("get" | "pop" | "setdefault"), [key, *rest]):
                found = self._scale_lookup(held, key.value)
                return (
                    self._walk.join([found, self._walk.scale(rest[0].value)], call)
                    if rest and found
                    else found
                )
            case "items", [] if keys is not None and values is not None:
                return Scale(ZERO, ZERO, Scale(ZERO, items=(keys, values)))
            case "keys", []:
                return Scale(ZERO, ZERO, keys)
            case "values", []:
                return Scale(ZERO, ZERO, values)
        return None

    def scale_filled_list(self, binding: Binding, place: cst.CSTNode, scale: Scale) -> Scale:
        """Return how a list scales to which elements are added: its length as often as that happens."""
        if not isinstance(place, cst.Name | cst.Attribute):
            return scale
        for added, element in self._find_additions(place):
            starts = self._state.find_starts(binding, place, itself=True)
            often = self._walk.frequencies.per_start(added, starts)
            written = bound_expression(binding)
            limit = self.find_limit(written) if written is not None else None
            if limit is not None:
                self._walk.note_sink(limit, often, "holds so many of the last")
            return Scale(scale.value, often, self._walk.scale(element))
        return scale

    def _find_additions(
        self, place: cst.Name | cst.Attribute
    ) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
        """Yield what adds an element to a list, and the element: `x.append(e)`, `x.extend([e])`, `x += [e]`, `x = x + [e]`."""
        match place:
            case cst.Name(value=name):
                calls = self._index.filled.get(name, [])
            case cst.Attribute(attr=cst.Name(value=name)):
                calls = self._index.filled_attributes.get(name, [])
        for call in calls:
            assert isinstance(call.func, cst.Attribute)
            if self._walk.recurrences.is_same(call.func.value, place):
                match method(call), call.args[0].value:
                    case ("append", given):
                        yield call, given
                    case ("extend", cst.List(elements=[element, *_])):
                        yield call, element.value
        for binding in self._state.bindings(place):
            for node in nodes_in(binding.value) if binding.place is not None else ():
                match node:
                    case cst.List(elements=[element, *_]) if binding.adds and node is binding.value:
                        yield self._walk.statement(binding.place or node), element.value
                    case cst.BinaryOperation(
                        left=left, operator=cst.Add(), right=cst.List(elements=[element, *_])
                    ) if self._walk.recurrences.is_same(left, place):
                        yield self._walk.statement(binding.place or node), element.value

    def scale_filled_mapping(self, place: cst.CSTNode, scale: Scale) -> Scale:
        """Return how a dictionary scales in which entries are set under computed numbers, `log[step] = loss`."""
        if not isinstance(place, cst.Name | cst.Attribute):
            return scale
        for target, value, part in self._index.stored_in(place):
            is_set = isinstance(self._module.parent(target), cst.AssignTarget) and not part
            match target.slice:
                case [cst.SubscriptElement(slice=cst.Index(value=key))] if (
                    is_set
                    and text_key(target) is None
                    and self._walk.recurrences.is_same(target.value, place)
                ):
                    keys = self._walk.scale(key)
                    return Scale(scale.value, keys.value, None, (keys,), (self._walk.scale(value),))
        return scale

    def _scale_filled_entry(
        self,
        container: cst.BaseExpression,
        key: str | None,
        starts: Sequence[cst.CSTNode] = (),
    ) -> Scale | None:
        """Return how a list in a dictionary scales to which elements are appended; under any key if `key` is None."""
        for call in self._index.filled_in(container) or self._filled_elsewhere(container):
            assert isinstance(call.func, cst.Attribute)
            entry = call.func.value
            filled = find_entry_container(entry)
            fits = key is None or (
                method(call) == "append" and find_entry_key(entry) in (key, None)
            )
            if fits and filled is not None and self._is_same_object(filled, container):
                often = self._walk.frequencies.per_start(
                    call, starts or self._creating_statements(container)
                )
                element = self._walk.scale(call.args[0].value)
                return Scale(element.value, often, element)
        return None

    def _filled_elsewhere(self, dictionary: cst.BaseExpression) -> Iterator[cst.Call]:
        """Yield the calls that add to lists in a dictionary under another name, as in the function that returns it."""
        if any(value.node is not None for value in self._values.of(dictionary)):
            for calls in self._index.filled_entries.values():
                yield from calls

    def _is_same_object(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether two expressions are the same variable, or may be the same object under two names."""
        if self._walk.recurrences.is_same(one, other):
            return True
        made, others = ({v.node for v in self._values.of(each)} for each in (one, other))
        return bool((made & others) - {None})

    def _creating_statements(self, container: cst.BaseExpression) -> list[cst.CSTNode]:
        """Return the statements that create a container."""
        if not isinstance(container, cst.Name) or not self._walk.has_few(container):
            return []
        bindings = self._values.definitions.of(container)
        places = (b.place for b in bindings if isinstance(b, Binding))
        return [self._walk.statement(place) for place in places if place is not None]

    def scale_filled_dictionary(self, call: cst.Call) -> Scale | None:
        """Return how `history.items()` or `history.values()` scales, of a dictionary of lists that the program fills; else
        None.
        """
        if not isinstance(call.func, cst.Attribute) or method(call) not in ("items", "values"):
            return None
        filled = self._scale_filled_entry(call.func.value, None)
        if filled is None or call.args:
            return None
        pair = Scale(ZERO, items=(unknown_scale(call), filled))
        return Scale(ZERO, ZERO, filled if method(call) == "values" else pair)

    def find_limit(self, value: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return the `n` of `deque(maxlen=n)`; None for another expression."""
        if isinstance(value, cst.Call) and self._walk.qualified(value) == "collections.deque":
            limit = argument(value, "maxlen", 1)
            return limit.value if limit is not None else None
        return None


def _strip_sign(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the operand of a unary minus; other expressions unchanged."""
    match node:
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            return inner
    return node


def _has_key(entry: cst.Subscript, key: str) -> bool:
    """Whether a subscript has this string or number as its key."""
    return any(
        isinstance(e.slice, cst.Index)
        and (is_string(e.slice.value, key) or str(number_of(e.slice.value)) == key)
        for e in entry.slice
    )
