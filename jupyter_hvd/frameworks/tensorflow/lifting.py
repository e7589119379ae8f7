"""Expressions carried from where an update stands to the eager call that leads to it."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from ...analysis.index import Binding
from ...analysis.syntax import nodes_in, parameters
from ...analysis.values import ValueAnalysis
from .compiled import EagerSite


def lift(values: ValueAnalysis, expression: cst.CSTNode, site: EagerSite) -> str | None:
    """The text that means, where `site.call` stands, what `expression` means inside the called function.

    Parameters become what the calls of the chain pass, `self` the receiver, and
    local names the expressions that they stand for. None where that cannot be seen.
    """
    if not site.chain:
        return values.module.text(expression) if _is_known_at(values, expression, site) else None
    match expression:
        case cst.Name():
            return _lift_name(values, expression, site)
        case cst.Attribute(value=value, attr=attr):
            base = lift(values, value, site)
            return f"{base}.{attr.value}" if base else None
        case cst.Subscript(value=value):
            base = lift(values, value, site)
            literal = not any(
                isinstance(n, cst.Name) for s in expression.slice for n in s.slice.children
            )
            whole, own = values.module.text(expression), values.module.text(value)
            return base + whole[len(own) :] if base and literal else None
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            parts = [lift(values, element.value, site) for element in elements]
            return f"[{', '.join(p for p in parts if p)}]" if all(parts) else None
        case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
            one, two = lift(values, left, site), lift(values, right, site)
            return f"{one} + {two}" if one and two else None
    return None


def _is_known_at(values: ValueAnalysis, expression: cst.CSTNode, site: EagerSite) -> bool:
    """Whether names mean at the call what they mean where an expression stands, which may be a comprehension elsewhere."""
    there = values.module.scope(site.call)
    if there is None:
        return True
    names = [n for n in nodes_in(expression) if isinstance(n, cst.Name)]
    scopes = [(name.value, values.module.scope(name)) for name in names]
    return all(here is None or set(here[name]) == set(there[name]) for name, here in scopes)


def _lift_name(values: ValueAnalysis, name: cst.Name, site: EagerSite) -> str | None:
    module = values.module
    here, there = module.scope(name), module.scope(site.call)
    if here is not None and there is not None and set(here[name.value]) == set(there[name.value]):
        return name.value
    call, outer = site.chain[0], replace(site, chain=site.chain[1:])
    match values.definitions.of(name):
        case [cst.Param() as parameter]:
            function = module.enclosing(parameter, cst.FunctionDef)
        case [Binding(value=value, path=())]:
            return lift(values, value, site)
        case _:
            return None
    if function is None:
        return None
    if module.class_of(function) is not None and parameters(function)[:1] == [parameter]:
        called = values.calls.direct(call).func
        receiver = called.value if isinstance(called, cst.Attribute) else called
        return lift(values, receiver, outer)
    made = _making(values, call, function)
    for place, passed in values.calls.actual_arguments(function, parameter):
        if place is (call if made is None else made):
            return lift(values, passed, outer)
    return module.text(parameter.default) if parameter.default is not None else None


def _making(values: ValueAnalysis, call: cst.Call, function: cst.FunctionDef) -> cst.Call | None:
    """The call of a function that has made the inner one that is called: `make_step(model, optimizer)(x, y)`."""
    sites = values.calls.sites(function)
    if call in sites:
        return None
    behind = values.flow.backward_slice(values.calls.direct(call).func)
    makers = [node for node in behind if isinstance(node, cst.Call) and node in sites]
    return makers[0] if len(makers) == 1 else None
