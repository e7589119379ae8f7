"""The programs of `tests/programs/` (`tests/suite.py`): each is converted and verified by running it, or refused by name.

The outcomes are printed at the end of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.verify.checks import Check

from . import data
from .coverage_page import refusal
from .ledger import verify
from .stacks import present_keras, skip_for_another_keras
from .suite import RUN, Program

PROGRAMS_BY_NAME = {program.name: program for program in RUN}
STEPS = 8

#: Programs whose ranks must agree on an order, by hand or by a seed: run on three ranks.
ORDERED = (
    "tape_cut_batches",
    "fit_image_folder",
    "fit_audio_folder",
    "fit_csv",
    "tape_list_files",
    "fit_window_property",
    "tape_full_batch",
    "part_on_rank_zero_first",
)
#: Programs that show in another spelling what another one here or a generated one (`tests/generated`) shows.
SPELLINGS = (
    *("batch_gan", "fit_adam_string", "fit_both_imports", "fit_combined", "fit_cosine_schedule"),
    *("fit_dataset_validation", "fit_datasets_by_name", "fit_default_optimizer", "fit_endless"),
    *("fit_functional", "fit_gan_class", "fit_generator", "fit_generator_of_own"),
    *("fit_image_generator", "fit_keras_imports_only", "fit_loss_scale"),
    *("fit_mixed_precision", "fit_nadam_name", "fit_optimizer_from_function", "fit_optimizers_get"),
    *("fit_print_first", "fit_reduce_on_plateau", "fit_schedule", "fit_steps_per_epoch"),
    *("fit_subclass", "fit_text_folder", "fit_twice"),
    *("fit_uneven", "keras3_loss_scale", "tape_batch_norm", "tape_break_on_loss", "tape_class"),
    *("tape_filtered", "tape_generator", "tape_grad_function", "tape_kept_in_dict"),
    *("tape_inside_with", "tape_mirrored", "tape_next", "tape_parameters", "tape_persistent"),
    *("tape_raw_variables", "tape_repeat_take", "tape_single_variable", "tape_split", "tape_take"),
    *("tape_top_level", "tape_while", "tape_while_done"),
    *("tape_wrapped_later", "tape_zip", "both_whole_by_hand", "fit_counted_batches"),
    *("fit_generator_method", "fit_loaded_compiled", "fit_mirrored", "fit_other_writers"),
    *("fit_rate_read", "fit_rate_scheduler", "fit_rate_set_by_backend", "fit_train_step_cond"),
    *("tape_next_generator", "tape_own_optimizer_frozen", "tape_step_passed", "batch_whole"),
    *("fit_train_step_helpers", "fit_optimizer_by_name", "fit_sgd_call", "tape_counted_inside"),
    *("both_whole_by_optimizer", "tape_own_optimizer"),
    *("fit_own_schedule", "fit_random_split", "fit_sequence", "tape_tf_function"),
)
#: Programs whose runs show what another one shows, here or in `tests/exact`; their conversions differ, which
#: `tests/convert/test_expected.py` shows.
COVERED_BY = {
    "fit_audio_folder": "fit_image_folder",
    "fit_changes_files": "fit_callbacks_that_write",
    "fit_early_draw": "test_started_by_horovodrun",
    "fit_hidden_arguments": "fit_scikeras",
    "fit_window_property": "fit_csv",
    "keras3_apply": "keras3_own_optimizer",
    "keras3_train_step": "fit_train_step",
    "part_depended_on": "part_on_rank_zero",
    "part_of_one_model": "part_on_rank_zero",
    "tape_attribute_of_two_classes": "tape_several_loops",
    "tape_comprehension": "tape_several_loops",
    "tape_gradient_penalty": "wgan_gp",
    "tape_list_files": "fit_image_folder",
    "tape_one_picture": "tape_batch_of_all_rows",
}


def case(program: Program):
    """A program of the suite; other spellings, and steps over one restriction each, are run by `make test-thorough`."""
    again = program.name in (*SPELLINGS, *ORDERED, *COVERED_BY)
    again = again or program.name.startswith("restriction_")
    marks = [pytest.mark.thorough] if again else []
    return pytest.param(program, id=program.name, marks=marks)


def ordered_case(name: str):
    """A program that is run on three ranks."""
    marks = [pytest.mark.thorough] if name in COVERED_BY else []
    return pytest.param(PROGRAMS_BY_NAME[name], id=name, marks=marks)


def failing(program: Program, checks: Sequence[Check]) -> list[Check]:
    """The checks that fail. A training that is not seen is shared and not scaled, which the conversion tells (HVD801)."""
    told = convert_source(program.source).diagnostics
    unscaled = any(d.code == "HVD801" and d.severity == "warning" for d in told)
    wrong = [check for check in checks if check.status == "fail"]
    return [c for c in wrong if not (unscaled and c.check.startswith("scaled to"))]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """A folder with the files that programs read."""
    return data.write(tmp_path_factory.mktemp("beside"))


@pytest.fixture
def beside(written: Path, program: Program, tmp_path: Path) -> Path:
    """That folder for a program that names one of its files; verified, each rank has a copy. Else an empty one."""
    named = any(f'"{each.name}' in program.source for each in written.iterdir())
    return written if named else tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("program", [case(program) for program in RUN])
def test_program(program: Program, beside: Path, record_property) -> None:
    if program.cannot_run(present_keras()):
        skip_for_another_keras()
    if program.is_refused:
        conversion = convert_source(program.source)
        assert conversion.status == "refused"
        result = str(refusal(conversion))
    else:
        checks = verify(program.path, 2, steps=STEPS, beside=beside).checks
        assert not failing(program, checks), checks
        assert any(c.check == "2 ranks: final weights" and c.status == "pass" for c in checks)
        unknown = [f"{c.check}: {c.detail}" for c in checks if c.status == "unknown"]
        passed = sum(check.status == "pass" for check in checks)
        result = "; ".join([f"holds, {passed} of {len(checks)} checks", *unknown])
    record_property("hvd-row", f"{program.name:<28} {result}")


@pytest.mark.slow
@pytest.mark.parametrize("program", map(ordered_case, ORDERED))
@pytest.mark.long
def test_program_on_three_ranks(program: Program, beside: Path) -> None:
    checks = verify(program.path, 3, steps=STEPS, beside=beside).checks
    assert not failing(program, checks), checks


def test_what_covers_a_program_is_run() -> None:
    run = {c.id for c in [*map(case, RUN), *map(ordered_case, ORDERED)] if not c.marks}
    assert run.isdisjoint(COVERED_BY)
    assert set(COVERED_BY) <= set(PROGRAMS_BY_NAME)
    assert set(COVERED_BY.values()) - run == {"test_started_by_horovodrun", "wgan_gp"}
