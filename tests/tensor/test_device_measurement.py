"""Profiles that a user measures: what they hold, where they are kept, and what becomes of broken ones."""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import asdict, replace

import pytest

from jupyter_hvd.cli import main
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.tensor.jax import device_measurement
from jupyter_hvd.tensor.jax.device_measurement import MeasuredSizes, measure_device
from jupyter_hvd.tensor.lowering import device as devices
from jupyter_hvd.tensor.lowering.device import CPU, Device, device_of, keep_profile, known_profiles

MINE = replace(CPU, name="mine", kinds=("cpu",), launch=1.0, unroll=7)


@pytest.fixture
def own_profiles(tmp_path, monkeypatch):
    """A folder of the user's profiles, read anew."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    forget = [known_profiles.cache_clear, device_of.cache_clear]
    for clear in forget:
        clear()
    yield devices.profile_folder()
    for clear in forget:
        clear()


FEW = MeasuredSizes(1 << 12, 32)


@pytest.fixture
def quickly(monkeypatch):
    """So few calls and entries that the figures mean little."""
    monkeypatch.setattr(device_measurement, "RUNS", 1)
    monkeypatch.setattr(device_measurement, "SIZES_OF_CPU", FEW)


@pytest.fixture
def launch_alone(monkeypatch):
    """Nothing else is measured: each figure compiles two kernels."""
    one = {"launch": device_measurement._measures(FEW)["launch"]}
    monkeypatch.setattr(device_measurement, "_measures", lambda _: one)


@pytest.mark.usefixtures("quickly")
def test_every_figure_of_a_device_is_measured_or_said_not_to_be():
    said = []
    found = measure_device(said.append)
    assert [figure.done for figure in said] == list(range(1, said[0].count + 1))
    measured = {figure.name: figure.value for figure in said if figure.value is not None}
    assert {"launch"} <= measured.keys()
    assert found.launch == measured["launch"] != CPU.launch
    assert all(figure.why for figure in said if figure.value is None)
    assert found.flops.keys() == CPU.flops.keys()
    # What is no figure is the profile's that the device had before.
    assert (found.block, found.by_value, found.platform) == (CPU.block, CPU.by_value, "cpu")


def test_figures_name_fields_of_a_device():
    known = asdict(CPU)
    for name in device_measurement._measures(FEW):
        field, _, dtype = name.partition(".")
        assert field in known
        assert not dtype or dtype in known[field]


def test_a_profile_that_is_kept_is_the_device_of_later_processes(own_profiles):
    assert device_of("cpu", "cpu") == CPU
    assert keep_profile(MINE).parent == own_profiles
    code = "from jupyter_hvd.tensor.jax.devices import current_device as d; print(d().unroll)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "7"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"name": "mine", "plat', "Unterminated"),
        ("[]", "list"),
        (json.dumps({**asdict(MINE), "launch": None}), "launch is None"),
        (json.dumps({**asdict(MINE), "gather": -1.0}), "gather is -1.0"),
        (json.dumps({**asdict(MINE), "launch": float("nan")}), "launch is nan"),
        (json.dumps({**asdict(MINE), "flops": {"float32": "fast"}}), "flops of float32"),
        (json.dumps({k: v for k, v in asdict(MINE).items() if k != "scatter"}), "lacks 'scatter'"),
        ("\x00", "Expecting value"),
    ],
)
def test_a_broken_profile_is_ignored_with_one_line(own_profiles, text, reason):
    own_profiles.mkdir(parents=True)
    (own_profiles / "mine.json").write_text(text)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert device_of("cpu", "cpu") == CPU
    assert len(said) == 1
    assert "mine.json is ignored" in str(said[0].message)
    assert reason in str(said[0].message)
    assert "\n" not in str(said[0].message)


@pytest.mark.usefixtures("quickly", "launch_alone")
def test_a_profile_that_cannot_be_written_is_one_line(own_profiles, capsys):
    own_profiles.parent.parent.mkdir(exist_ok=True)
    own_profiles.parent.write_text("a file, where a folder should be")
    with pytest.raises(UnusableInputError, match="cannot be made"):
        keep_profile(MINE)
    assert main(["device-profile"]) == 2
    assert "cannot be made" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.usefixtures("quickly", "launch_alone")
def test_the_command_prints_or_keeps_the_profile(own_profiles, capsys):
    assert main(["device-profile", "--json"]) == 0
    out, err = capsys.readouterr()
    assert Device.of(json.loads(out)).kinds == ("cpu",)
    assert "measuring cpu" in err
    assert not own_profiles.exists()
    assert main(["device-profile"]) == 0
    assert "kept in" in capsys.readouterr().out
    assert len(list(own_profiles.iterdir())) == 1
