"""Data in the place of downloads: `install()` replaces the loaders of Keras and scikit-learn by seeded random arrays.

Shapes, types and ranges are those of the originals, and classes differ in their means. Pretrained weights are replaced by
initial ones. Other downloads fail, as they do without a network.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

Split = tuple[np.ndarray, np.ndarray]
Datasets = tuple[Split, Split]
#: Numbers of rows of training and test data that programs write out, as in `x.reshape(60000, 784)`.
FULL_ROWS = {
    **dict.fromkeys(("mnist", "fashion_mnist"), (60000, 10000)),
    **dict.fromkeys(("cifar10", "cifar100"), (50000, 10000)),
}
#: Enough where a program takes the first 5000 rows for its validation.
FEW_ROWS = (5600, 400)
KERAS = ("keras", "tf_keras", "tensorflow.keras", "keras._tf_keras.keras")
#: Shape of an image, and number of classes.
IMAGES = {
    "mnist": ((28, 28), 10),
    "fashion_mnist": ((28, 28), 10),
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
}


def draw_images(name: str, rows: tuple[int, int]) -> Datasets:
    """uint8 images, and uint8 labels of shape (rows,), or (rows, 1) for CIFAR."""
    shape, classes = IMAGES[name]
    generator = np.random.default_rng(0)

    def draw(count: int) -> Split:
        labels = generator.integers(classes, size=count).astype("uint8")
        images = generator.integers(0, 156, (count, *shape), "uint8")
        images += labels.reshape(-1, *[1] * len(shape)) * np.uint8(99 // (classes - 1))
        return images, labels[:, None] if name.startswith("cifar") else labels

    return draw(rows[0]), draw(rows[1])


def draw_words(classes: int, num_words: int | None) -> Datasets:
    """Lists of word numbers of unequal length, and int64 labels."""
    generator = np.random.default_rng(0)

    def draw(count: int) -> Split:
        labels = generator.integers(classes, size=count)
        texts = np.empty(count, object)
        for row, label in enumerate(labels):
            length = int(generator.integers(20, 120))
            words = generator.integers(4, (num_words or 10000) - classes, length) + label
            texts[row] = [1, *words.tolist()]
        return texts, labels

    return draw(600), draw(200)


def draw_table(rows: int, columns: int) -> Split:
    """float64 features, and float64 targets that are linear in them but for noise."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(rows, columns)) + np.arange(columns)
    return features, features @ generator.normal(size=columns) + generator.normal(size=rows)


def bunch_of_table(rows: int, columns: int, **_: Any) -> Any:
    from sklearn.utils import Bunch

    data, target = draw_table(rows, columns)
    names = [f"column {number}" for number in range(columns)]
    return Bunch(data=data, target=target, feature_names=names, target_names=["target"], DESCR="")


def replace_datasets(datasets: Any, full: bool) -> None:
    def images(name: str, *_: str, **__: str) -> Datasets:
        return draw_images(name, FULL_ROWS[name] if full else FEW_ROWS)

    def submodule(name: str) -> Any:
        return importlib.import_module(f"{datasets.__name__}.{name}")

    for name in IMAGES:
        submodule(name).load_data = functools.partial(images, name)
    for name, classes in (("imdb", 2), ("reuters", 46)):
        module = submodule(name)
        module.load_data = lambda *_, num_words=None, classes=classes, **__: draw_words(
            classes, num_words
        )
        module.get_word_index = lambda *_: {f"word{number}": number for number in range(1, 9997)}  # fmt: skip
    for name, columns in (("boston_housing", 13), ("california_housing", 8)):
        if hasattr(datasets, name):
            x, y = draw_table(506, columns)
            loaded = ((x[:404], y[:404]), (x[404:], y[404:]))
            submodule(name).load_data = lambda loaded=loaded, **_: loaded


def replace_pretrained(applications: Any) -> None:
    """Models of `keras.applications` have initial weights in the place of downloaded ones."""

    def initial(make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            return make(*args, **{**options, "weights": None})

        return made

    owners = [applications, *(v for v in vars(applications).values() if isinstance(v, type(np)))]
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if callable(value) and name[0].isupper():
                setattr(owner, name, initial(value))


def replace_tables() -> None:
    """Loaders of scikit-learn that download, or that newer versions lack."""
    from sklearn import datasets

    datasets.fetch_california_housing = functools.partial(bunch_of_table, 800, 8)
    datasets.load_boston = functools.partial(bunch_of_table, 506, 13)


def install(full: bool = False) -> None:
    """Replace all loaders of what is installed.

    Args:
        full: image datasets have as many rows as the originals, and else `FEW_ROWS`.
    """
    for name in KERAS:
        with contextlib.suppress(ImportError, AttributeError):
            replace_datasets(importlib.import_module(f"{name}.datasets"), full)
            replace_pretrained(importlib.import_module(f"{name}.applications"))
    with contextlib.suppress(ImportError):
        replace_tables()
