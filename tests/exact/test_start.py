"""What a process is by its launcher's environment, and what it draws."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jupyter_hvd.runtime.sharing.launch_environment import launched_by
from jupyter_hvd.runtime.sharing.random_state import RandomState, random_state, set_random_state

HOROVODRUN = {
    "HOROVOD_RANK": "1",
    "HOROVOD_GLOO_RENDEZVOUS_ADDR": "a",
    "HOROVOD_GLOO_RENDEZVOUS_PORT": "5",
}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "3", "PMIX_NAMESPACE": "job.1"}


def test_ranks_of_a_job_have_one_seed_and_jobs_have_several() -> None:
    first = launched_by(HOROVODRUN)
    assert first is not None
    assert first.rank == 1
    assert launched_by({**HOROVODRUN, "HOROVOD_RANK": "0"}) == replace(first, rank=0)
    for other in ({**HOROVODRUN, "HOROVOD_GLOO_RENDEZVOUS_PORT": "6"}, OPEN_MPI):
        found = launched_by(other)
        assert found is not None
        assert found.seed != first.seed
    assert launched_by({"PATH": "/bin", "SLURM_PROCID": "0"}) is None


@pytest.mark.parametrize("drawn", [random.random, np.random.rand])
def test_random_numbers_go_on_elsewhere(drawn) -> None:
    state = random_state()
    expected = drawn()
    set_random_state(state)
    assert drawn() == expected


NO_TENSORFLOW = """
import sys
from jupyter_hvd.runtime.sharing.random_state import random_state
assert random_state().seed is None and "tensorflow" not in sys.modules
"""
TENSORFLOW = """
from jupyter_hvd.runtime.sharing.random_state import random_state, set_random_state
import tensorflow as tf
assert random_state().seed is None  # and nothing is begun for it
tf.random.set_seed(7)
assert random_state().seed == 7
tf.random.normal(())
tf.random.get_global_generator().normal(())
import keras
fresh = random_state()
draw = lambda: [
    float(v) for v in (tf.random.normal(()), tf.random.get_global_generator().normal(()), keras.random.normal(()))
]
first, state = draw(), random_state()
expected = draw()
tf.random.set_seed(8)
draw()
set_random_state(state)
assert draw() == expected, expected
set_random_state(fresh)
assert draw() == first, first
"""


@pytest.mark.slow
def test_random_numbers_of_tensorflow_go_on_elsewhere(run_forked_script, tmp_path: Path) -> None:
    script = tmp_path / "draws.py"
    script.write_text(TENSORFLOW)
    done = run_forked_script(script)
    assert done.returncode == 0, done.stderr


SEEDED_OPERATIONS = """
import os
import tensorflow as tf
from jupyter_hvd.runtime.sharing.program import SEED_VARIABLE, seed_tensorflow
from jupyter_hvd.runtime.sharing.random_state import random_state

@tf.function
def compiled(seed):
    return tf.random.normal((3,), seed=seed)

def drawn(seed):
    order = tf.data.Dataset.range(20).shuffle(20, seed=seed)
    initial = tf.keras.initializers.TruncatedNormal(seed=seed)
    dropped = tf.nn.dropout(tf.ones(9), 0.5, seed=seed)
    found = [*order, *order, *tf.random.uniform((3,), seed=seed), *compiled(seed), *initial((3,)), *dropped]
    return [float(x) for x in found]

def with_common(number, seed):
    os.environ[SEED_VARIABLE] = str(number)
    seed_tensorflow()
    assert random_state().seed is None
    return drawn(seed)

alone, without = drawn(1), drawn(None)
assert with_common(5, 1) == with_common(6, 1) == alone
# Where the program sets no seed at all, ranks draw by the common one.
compiled = tf.function(compiled.python_function)
first = with_common(5, None)
compiled = tf.function(compiled.python_function)
assert with_common(5, None)[:40] == first[:40] != with_common(6, None)[:40]
# A global seed that the program sets counts as in one process.
tf.random.set_seed(5)
assert random_state().seed == 5
assert drawn(1)[:40] != alone[:40]
"""


@pytest.mark.slow
def test_an_operation_with_a_seed_draws_what_it_draws_in_one_process(
    run_forked_script, tmp_path: Path
) -> None:
    script = tmp_path / "draws.py"
    script.write_text(SEEDED_OPERATIONS)
    done = run_forked_script(script)
    assert done.returncode == 0, done.stderr


def test_tensorflow_is_not_imported_for_its_state() -> None:
    subprocess.run([sys.executable, "-c", NO_TENSORFLOW], check=True)


def test_what_the_other_process_has_not_stays() -> None:
    expected = random_state().numpy
    set_random_state(RandomState(random_state().python))
    assert random_state().numpy == expected


def test_states_of_cells_that_draw_little_hold_one_key() -> None:
    """A kernel keeps the state with which each cell began: about 5 kB would be a lot for each of them."""
    random.seed(0)
    np.random.seed(0)
    random.random()
    np.random.rand()  # numbers drawn after a seed begin a new key
    first = random_state()
    random.gauss(0.0, 1.0)
    np.random.rand(3)
    second = random_state().share_keys(first)
    assert second != first
    assert second == random_state()
    assert second.python.key is first.python.key
    assert second.numpy.key is first.numpy.key
    np.random.rand(624)
    assert random_state().share_keys(first).numpy.key != first.numpy.key
