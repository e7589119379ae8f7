"""Programs nobody wrote, on two living ranks: forty here, thousands by `make fuzz-convert` (docs/generated.md)."""

from __future__ import annotations

import ast

import pytest
from grammar import SIMPLEST, draw, is_sound, simpler, start, text
from laboratory import Laboratory, converted

from jupyter_hvd.convert import Options

PROGRAMS = range(28)
#: Rules that are switched off, with a program that needs each, and what then is found wrong.
MUTANTS = {
    "HVD103": (start("fit").having("rows", "unseeded_split"), "work divided"),
    "HVD201": (SIMPLEST, "one process"),
    "HVD202": (start("fit").having("initial", "random"), "ranks agree"),
    "HVD203": (SIMPLEST.having("rate", "exponential"), "one process"),
    "HVD206": (SIMPLEST.having("rate", "set_each_epoch").having("epochs", "two"), "one process"),
    "HVD301": (SIMPLEST, "ranks agree"),
    "HVD302": (SIMPLEST.having("initial", "random"), "ranks agree"),
    "HVD401": (start("fit").having("initial", "random"), "ranks agree"),
    "HVD403": (start("fit"), "output"),
    "HVD501": (SIMPLEST.having("walk", "take"), "work divided"),
    "HVD502": (SIMPLEST, "work divided"),
    "HVD503": (start("fit").having("source", "arrays_in_order"), "work divided"),
    "HVD505": (start("fit").having("source", "sequence"), "work divided"),
    "HVD601": (SIMPLEST.with_extra("print_at_end"), "output"),
    "HVD602": (SIMPLEST.with_extra("numpy_save"), "files"),
    "HVD603": (SIMPLEST.with_extra("json"), "files"),
}


@pytest.fixture(scope="module")
def laboratory():
    with Laboratory(timeout=120.0) as laboratory:
        yield laboratory


@pytest.mark.slow
@pytest.mark.xdist_group("living ranks")
@pytest.mark.parametrize("seed", PROGRAMS)
def test_program(seed: int, laboratory: Laboratory) -> None:
    """It is converted and trains as one process does, or refused for a part that is refused by itself."""
    program = draw(seed)
    verdict = laboratory.try_out(program, seed)
    assert verdict.kind in ("right", "refused"), f"{program.parts}\n{verdict.reason}"


@pytest.mark.slow
@pytest.mark.xdist_group("living ranks")
@pytest.mark.parametrize("code", MUTANTS)
def test_mutant_is_found(code: str, laboratory: Laboratory, record_property) -> None:
    """The harness finds what a rule that is switched off leaves wrong."""
    record_property("mutant", "a rule left out, for generated programs")
    program, check = MUTANTS[code]
    assert code in {change.rule for change in converted(text(program)).changes}
    conversion = converted(text(program), Options(ignore=(code,)))
    verdict = laboratory.try_out(program, 1, conversion)
    assert (verdict.kind, verdict.check) == ("wrong", check), verdict.reason


def test_every_program_is_python() -> None:
    for seed in range(500):
        program = draw(seed)
        assert is_sound(program)
        for scale in (1, 2):
            ast.parse(text(program, scale))


def test_a_program_is_made_simpler_until_it_is_the_simplest() -> None:
    program = draw(0)
    while program.parts:
        less = next(simpler(program))
        assert len(less.parts) < len(program.parts)
        program = less
    assert program == SIMPLEST


@pytest.mark.parametrize(
    "chosen",
    [
        "model.trainable_variables[:1]",
        "model.layers[0].trainable_variables",
        "everything[-1:]",
    ],
)
def test_a_model_of_which_a_part_is_trained_is_broadcast_as_a_whole(chosen: str) -> None:
    """Found by the generator: what is not trained differed between the ranks."""
    source = text(SIMPLEST.having("update", "first_variables").having("initial", "random"))
    everything = "everything = model.trainable_variables\n    chosen ="
    changed = source.replace("chosen =", everything).replace(
        "= model.trainable_variables[:1]", f"= {chosen}"
    )
    assert "jhvd.broadcast_once(optimizer, model)\n" in converted(changed).code
