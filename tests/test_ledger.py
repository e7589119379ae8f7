"""The ledger of verifications: an entry for each thing that a verdict depends on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hvd.convert import Options

from . import ledger

PROGRAM = Path(__file__).parent / "programs" / "fit_sgd_call.py"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    path = tmp_path / PROGRAM.name
    path.write_text(PROGRAM.read_text())
    return path


def test_each_thing_counts(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def name(**given: object) -> str:
        return ledger.entry_name(copy, 2, Options(), given)

    first = name(steps=8)
    assert name(steps=8) == first
    assert name(steps=9) != first
    assert ledger.entry_name(copy, 3, Options(), {"steps": 8}) != first
    assert ledger.entry_name(copy, 2, Options(ignore=("HVD202",)), {"steps": 8}) != first
    monkeypatch.setattr(ledger, "code_hash", lambda: "another")
    assert name(steps=8) != first
    monkeypatch.undo()
    monkeypatch.setattr(ledger, "converted", lambda *_: "converted in another way")
    assert name(steps=8) != first
    monkeypatch.undo()
    copy.write_text(copy.read_text() + "\n# another program\n")
    assert name(steps=8) != first


def test_what_was_found_is_found_again(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = ledger.ExactVerification((2,), 0, ())
    monkeypatch.setattr(ledger, "run_verify", lambda *_, **__: found)
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    first = ledger.verify(copy, 2, steps=8)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("it is run again")

    monkeypatch.setattr(ledger, "run_verify", never)
    assert ledger.verify(copy, 2, steps=8) == first
    with pytest.raises(AssertionError):
        ledger.verify(copy, 2, steps=9)
    monkeypatch.delenv(ledger.VARIABLE)
    with pytest.raises(AssertionError):
        ledger.verify(copy, 2, steps=8)
