"""The environments of this checkout, each with its TensorFlow and its Keras, made by `make env`, `env-tf215`, `env-tf218`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

import pytest

from .needs import needs

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Stack:
    """An environment by its folder, with the Keras that programs there get as `tf.keras`."""

    folder: str
    keras: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return Path(sys.executable) if self == OWN else ROOT / self.folder / "bin" / "python"

    def case(self, *marks: pytest.MarkDecorator) -> Any:
        """This stack as a parameter of a test, skipped where it has not been made."""
        need = () if self == OWN else (pytest.mark.needs(self.folder.removeprefix(".venv-")),)
        return pytest.param(self, id=self.keras.replace(" ", "-"), marks=[*need, *marks])


OWN = Stack(".venv", "Keras 3")
KERAS_2 = Stack(".venv-tf215", "Keras 2")
LEGACY = Stack(".venv-tf218", "tf-keras", {"TF_USE_LEGACY_KERAS": "1"})
STACKS = (OWN, KERAS_2, LEGACY)


def present_keras() -> str:
    """The Keras of the process that asks, by the name that its stack has here."""
    if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
        return LEGACY.keras
    return KERAS_2.keras if version("keras").startswith("2.") else OWN.keras


def skip_for_another_keras() -> NoReturn:
    pytest.skip(
        f"{needs.OTHER_KERAS}{needs.SKIPPED}they are for another version than {present_keras()}"
    )
