"""Versions of installed packages, found without importing them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

#: By what names TensorFlow is installed.
TENSORFLOW = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "tf-nightly")
#: What decides what a training computes, each with the names by which it is installed.
COMPUTING = {
    "jupyter_hvd": ("jupyter-hvd",),
    "tensorflow": TENSORFLOW,
    "keras": ("keras", "keras-nightly"),
    "tf_keras": ("tf-keras", "tf-keras-nightly"),
    "horovod": ("horovod",),
    "numpy": ("numpy",),
}


def version_of(*names: str) -> str | None:
    """Return the version of the first of these packages that is installed; None if none is."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def computing_versions() -> dict[str, str]:
    """Return the versions of the installed packages that determine what a training computes."""
    found = {package: version_of(*names) for package, names in COMPUTING.items()}
    return {package: known for package, known in found.items() if known is not None}
