"""Programs nobody wrote, scaled up: 2 and 3 ranks do at each number of examples what one process does (docs/generated.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import pytest
import scaled_process
import standin_tensorflow
from scaled_grammar import KINDS, ScaledProgram, draw
from scaled_oracle import differences, seen_values
from scaled_process import ScaledRun

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options

SIZES = (2, 3)
QUICK, ALL, REAL, QUICK_REAL = 60, 2000, 300, 4
Run = Callable[[str, int], ScaledRun]


def converted(program: ScaledProgram, *ignored: str) -> str:
    outcome = convert_source(program.text, options=Options(ignore=ignored))
    assert outcome.status == "converted", outcome.diagnostics
    told = [d.message for d in outcome.diagnostics if d.code in ("HVD801", "HVD804")]
    assert ignored or program.is_whole or not told, "every part of these programs has a unit"
    return outcome.code


def faults(
    program: ScaledProgram, run: Run, code: str, sizes: tuple[int, ...] = SIZES
) -> list[str]:
    """What is wrong with a scaled program, on some numbers of ranks."""
    original = run(program.text, 1)
    assert not original.error, original.error
    return [
        f"{size} ranks: {found}"
        for size in sizes
        for found in differences(program, original, run(code, size), size)
    ]


@pytest.mark.parametrize("is_uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("seed", range(QUICK))
def test_a_scaled_program_is_the_original_as_a_function_of_examples(
    seed: int, is_uneven: bool
) -> None:
    program = draw(seed, is_uneven=is_uneven)
    assert faults(program, standin_tensorflow.run, converted(program)) == [], program.text


@pytest.mark.thorough
def test_many_scaled_programs_are_the_originals_as_functions_of_examples() -> None:
    wrong = {}
    for seed, is_uneven in product(range(QUICK, ALL), (False, True)):
        program = draw(seed, is_uneven=is_uneven)
        if found := faults(program, standin_tensorflow.run, converted(program)):
            wrong[seed, is_uneven] = found[0]
    assert wrong == {}


# Real TensorFlow


@pytest.fixture(scope="module")
def tensorflow() -> Iterator[Run]:
    with scaled_process.pool() as pool:
        yield lambda source, size: in_process(pool, source, size)


def in_process(pool: ProcessPoolExecutor, source: str, size: int) -> ScaledRun:
    return pool.submit(scaled_process.run, source, size).result(timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        range(QUICK_REAL),
        pytest.param(range(QUICK_REAL, REAL), marks=pytest.mark.thorough),
    ],
    ids=["few", "many"],
)
@pytest.mark.long
def test_programs_in_tensorflow(tensorflow: Run, seeds: range) -> None:
    """They are scaled right there, too, and the stand-in does what TensorFlow does."""
    wrong = {}
    for seed in seeds:
        program = draw(seed, is_uneven=seed % 2 == 1)
        found = faults(program, tensorflow, converted(program))
        found += unlike(tensorflow(program.text, 1), standin_tensorflow.run(program.text, 1))
        if found:
            wrong[seed] = found[0]
    assert wrong == {}


def unlike(real: ScaledRun, standin: ScaledRun) -> list[str]:
    """Where the stand-in does something else than TensorFlow."""
    if standin.error:
        return [f"stand-in: {standin.error}"]
    ours, theirs = seen_values(standin), seen_values(real)
    return [
        f"stand-in: {name}"
        for name in ours.keys() | theirs.keys()
        if not near(ours.get(name, []), theirs.get(name, []))
    ]


def near(ours: list[tuple[int, float]], theirs: list[tuple[int, float]]) -> bool:
    return len(ours) == len(theirs) and all(
        seen == when and abs(a - b) <= 1e-3 * max(1.0, abs(b))
        for (seen, a), (when, b) in zip(ours, theirs, strict=True)
    )


# That the generator makes what can go wrong


def test_every_kind_is_made() -> None:
    counts = Counter(kind for seed in range(ALL) for kind in draw(seed).kinds)
    assert {kind: counts[kind] for kind in KINDS if counts[kind] < 20} == {}


#: Kinds that are right where counts of steps are not divided, with what makes them wrong: a rate that is multiplied where it is
#: given, or batches that are not.
RATE, BATCH = "rate", "batch"
FAULTS = {
    **dict.fromkeys(
        [
            *("Keras schedule", "own schedule", "rate scheduler"),
            *("plateau with floor", "halving with floor"),
            *("all rows in fit", "all rows in a loop"),
        ],
        RATE,
    ),
    **dict.fromkeys(
        [
            *("constant rate", "validation split", "early stopping", "metric in callback"),
            *("rows by hand", "fit", "epochs", "numbered", "cut"),
            *("positions", "ordered", "generated", "configured"),
        ],
        BATCH,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_goes_wrong_without_its_edits(
    kind: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("mutant", "kinds of edits left out, by what the scaled program computes")
    assert any(goes_wrong(draw(seed, kind), FAULTS.get(kind, "")) for seed in range(20))


def goes_wrong(program: ScaledProgram, fault: str) -> bool:
    if fault == RATE:
        naive = lambda source, size: standin_tensorflow.run(source, size, naive_rate=True)  # noqa: E731
        return bool(faults(program, naive, with_scaled_rate(program), (2,)))
    ignored = "HVD801" if fault == BATCH else "HVD804"
    return bool(faults(program, standin_tensorflow.run, converted(program, ignored), (2,)))


def with_scaled_rate(program: ScaledProgram) -> str:
    """The conversion, in which each optimizer is scaled, also one whose batches have all rows."""
    code = converted(program)
    if "scale_rate" in code or not program.is_whole:
        return code
    return re.sub(
        r"(tf\.keras\.optimizers\.(?:SGD|Adam)\((?:[^()]|\([^()]*\))*\))",
        r"jhvd.scale_rate(\1)",
        code,
    )
