"""Cards of `%%tensor`: each function's types, cost formula, and status."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tensor import TensorError, TensorFunction
from ..tensor.cost.formula import select_region
from ..tensor.frontend.signature import declared
from .templates import render_html
from .unresolved_names import unresolved_names
from .wording import format_formula


@dataclass(frozen=True)
class Card:
    """What a card says; `unresolved` are names in the function that there are not, yet."""

    name: str
    signature: str
    cost: str
    formula: str
    state: str
    typed: bool
    unresolved: tuple[str, ...] = ()


def make_card(function: TensorFunction) -> Card:
    """Return the card of a function: its types, and its cost at the sizes of the last call.

    Raises:
        TensorError: there is no program at the annotated types.
    """
    parameters = function.__signature__.parameters
    name = function.__name__
    known = function.has_types or all(
        declared(x, p.annotation) is not None for x, p in parameters.items()
    )
    if not known:
        inside = ", ".join(parameters)
        waiting = "Not compiled yet. Call it once, or annotate its parameters, to see its cost."
        unresolved = tuple(unresolved_names(function.python))
        return Card(name, f"{name}({inside})", "", "", waiting, False, unresolved)
    instance = function.instance
    inside = ", ".join(f"{x}: {t}" for x, t, _ in instance.parameters)
    formula = function.cost_formula()
    sizes = function.last_sizes
    return Card(
        name,
        f"{name}({inside}) → {instance.function.body.type}",
        format_formula(formula if sizes is None else select_region(formula, sizes)),
        str(formula),
        _card_state(function),
        True,
    )


def _card_state(function: TensorFunction) -> str:
    """Return a sentence on whether, and for which sizes, the function is compiled."""
    compiled, sizes = function.compiled, function.last_sizes
    if not compiled:
        return "Not compiled yet: its first call compiles it."
    if not sizes:
        return "compiled"
    at = ", ".join(f"{name} = {n}" for name, n in sizes.items())
    return f"compiled for {at}" if compiled == 1 else f"compiled for {compiled} sizes"


def cards_text(cards: list[Card]) -> str:
    """Return cards as lines of text."""
    return "\n".join(
        "\n  ".join(
            [
                f"{c.signature}   {c.cost + ' operations; ' if c.typed else ''}{c.state}",
                *c.unresolved,
            ]
        )
        for c in cards
    )


def cards_bundle(cards: list[Card]) -> dict[str, Any]:
    """Return cards as a MIME bundle, HTML and text."""
    html = render_html("cards.html.jinja", cards=cards)
    return {"text/html": html, "text/plain": cards_text(cards)}


@dataclass
class Shown:
    """Cards on display, kept up to date as their functions get types and kernels."""

    functions: tuple[TensorFunction, ...]
    handle: Any
    cards: list[Card]

    def refresh_cards(self) -> None:
        """Update the display if a card has changed; keep the cards if one cannot be made any more."""
        try:
            now = [make_card(function) for function in self.functions]
        except TensorError:
            return
        if now != self.cards:
            self.cards = now
            self.handle.update(cards_bundle(now), raw=True)
