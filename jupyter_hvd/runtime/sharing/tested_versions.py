"""The pairs of TensorFlow and Keras that training with one process's results was tested with. Imports neither."""

from __future__ import annotations

#: TensorFlow's version, a Keras and its version, for all of which the programs of tests/exact give one process's numbers.
TESTED = (
    ("2.21", "keras", "3.15"),
    ("2.15", "keras", "2.15"),
    ("2.21", "tf_keras", "2.21"),
    ("2.18", "tf_keras", "2.18"),
)


def is_tested(tensorflow: str, name: str, version: str) -> bool:
    """Whether a Keras, by its module's name and its version, was tested with a version of TensorFlow."""
    return (minor_version(tensorflow), name, minor_version(version)) in TESTED


def list_tested() -> str:
    """Return all tested pairs, for a message."""
    return ", ".join(f"{name} {keras} with TensorFlow {tf}" for tf, name, keras in TESTED)


def minor_version(version: str) -> str:
    """Return a version without its patch number: `2.15` of `2.15.1`."""
    return ".".join(version.split(".")[:2])
