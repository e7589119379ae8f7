"""The time of a conversion grows as its text does, whatever the text is.

    python tests/convert/test_growth.py [KILOBYTES …]

prints the table of these times.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import pytest

from jupyter_hvd.convert.notebook import convert_cells
from jupyter_hvd.convert.rules.options import Options

TRAINING = """\
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
"""
#: The most by which the time may grow where the text grows tenfold.
MOST = 12
#: Seconds of CPU time below which differences are noise.
FLOOR = 0.3
TEXT, STATEMENTS = (10, 100, 1000), (5, 50)


def repeated(part: str) -> Callable[[int], str]:
    return lambda size: part * (size // len(part))


def numbered(line: str) -> Callable[[int], str]:
    """Lines, each with its own number in the place of `{}`."""
    return lambda size: "\n".join(line.format(f"{n:06d}") for n in range(size // (len(line) + 5)))


#: What a cell holds, by a name: its text of a size in bytes, and the sizes in kB that are converted here.
CELLS: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "one token": (repeated("a"), TEXT),
    "one string": (lambda size: f"x = '{'a' * size}'", TEXT),
    "one string of names": (lambda size: f"x = '{'a.b/' * (size // 4)}'", TEXT),
    "one comment": (lambda size: f"# {'a ' * (size // 2)}", TEXT),
    "one magic": (lambda size: f"%foo {'a' * size}", TEXT),
    "one magic of blanks": (lambda size: f"%foo\n{' ' * size}\nx = 1", TEXT),
    "one `!` line": (lambda size: f"!echo {'./!' * (size // 3)}", STATEMENTS),
    "`!python` in one line": (lambda size: f"!{'python a.py;' * (size // 12)}", STATEMENTS),
    "blank lines": (lambda size: "%foo\n" + "\n" * size, (3, 30)),
    "blank lines, no Python": (lambda size: "x = (" + "\n" * size, (3, 30)),
    "lines of a string": (
        lambda size: "x = '''" + "many words a line\n" * (size // 18) + "'''",
        TEXT,
    ),
    "line magics": (numbered("%config InlineBackend.figure_format = 'a{}'"), STATEMENTS),
    "line magics of one letter": (repeated("%a\n"), (1, 10)),
    "timed lines": (numbered("%time name_{} = 'a string of some length'"), STATEMENTS),
    "`!` lines": (numbered("!echo a line of the shell that says something {}"), STATEMENTS),
    "bound `!` lines": (numbered("name_{} = !ls a-folder-of-some-length-or-other"), STATEMENTS),
    "help lines": (numbered("name_{}.method?"), STATEMENTS),
    "indented magics": (
        lambda size: "if a:\n" + "  if b:\n    %foo\n    !bar\n  x = %baz\n" * (size // 46),
        (3, 30),
    ),
    "cell magics": (lambda size: "%%time\n" * (size // 7) + "x = 1", STATEMENTS),
    "assignments": (numbered("name_{} = 'a string of some length, as in notebooks'"), STATEMENTS),
    "assignments to one name": (numbered("name = 'a string of some length {}'"), STATEMENTS),
    "assignments in one line": (repeated("x = 1;"), (3, 30)),
    "calls": (numbered("print('a string of some length, as in notebooks', 1{})"), STATEMENTS),
    "a list": (lambda size: f"x = [{'1, ' * (size // 3)}]", (3, 30)),
}


def seconds(cell: str, tries: int = 1) -> float:
    """The least CPU time of some conversions of a notebook with this cell."""
    times = []
    for _ in range(tries):
        gc.collect()
        start = time.process_time()
        convert_cells([TRAINING, cell], options=Options())
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_time_grows_as_the_text_does(name: str) -> None:
    made, sizes = CELLS[name]
    seconds("", 2)  # imports
    before = seconds(made(sizes[0] * 1000), 3)
    for size in sizes[1:]:
        allowed = MOST * max(before, FLOOR)
        after = seconds(made(size * 1000))
        if after > allowed:  # once may be bad luck
            after = min(after, seconds(made(size * 1000)))
        assert after <= allowed, f"{size} kB take {after:.1f} s, a tenth of it {before:.2f} s"
        before = after


def main(sizes: list[int]) -> None:
    seconds("", 2)
    print(f"{'seconds of CPU time':28}", *(f"{f'{size} kB':>9}" for size in sizes))
    for name, (made, _) in CELLS.items():
        print(f"{name:28}", end="", flush=True)
        for size in sizes:
            taken = seconds(made(size * 1000))
            print(f" {taken:9.2f}", end="", flush=True)
            if taken > 60:
                break
        print()


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10, 100])
