"""Files that programs of `tests/programs/` read: scikit-learn's digits as images, texts, sounds and a table."""

from __future__ import annotations

import csv
import wave
from pathlib import Path

import numpy as np

#: How many digits; so many that batches of 16 and of 8 do not come out even among two ranks or three.
DIGITS = 150


def write(folder: Path) -> Path:
    """The digits 0 and 1, by class, in each form: `images/0/….png`, `texts/…`, `sounds/…`, `table.csv`."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits(n_class=2)
    rows = (digits.data[:DIGITS] * 15.9).astype("uint8")
    for number, (row, label) in enumerate(zip(rows, digits.target, strict=False)):
        for kind in ("images", "texts", "sounds"):
            (folder / kind / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(row.reshape(8, 8)).save(folder / f"images/{label}/{number}.png")
        words = " ".join(f"w{value}" for value in (number, *row[18:24] // 16))
        (folder / f"texts/{label}/{number}.txt").write_text(words)
        with wave.open(str(folder / f"sounds/{label}/{number}.wav"), "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(2)
            sound.setframerate(8000)
            sound.writeframes((row.astype(np.int16) * 100).tobytes())
    with (folder / "table.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["a", "b", "c", "label"])
        table.writerows([float(n), *row[20:22].tolist(), n % 2] for n, row in enumerate(rows))
    return folder
