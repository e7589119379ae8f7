"""No exception of ours, of Python's or of JAX's reaches a user raw: each class that tracing raises inside is raised here."""

import jax
import numpy as np
import pytest
from differences import compiled

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.called_function import CalledFunction
from jupyter_hvd.tensor.frontend.captured_data import ArrayMet, EndsDescendError
from jupyter_hvd.tensor.frontend.rewrite import OURS
from jupyter_hvd.tensor.frontend.tracers import UnreadableError
from jupyter_hvd.tensor.frontend.tracing import calls, packing
from jupyter_hvd.tensor.frontend.tracing.arrays import SizesMet
from jupyter_hvd.tensor.frontend.tracing.recurrences import InOrder, NoSuchEntry
from jupyter_hvd.tensor.frontend.tracing.statements import Raised
from jupyter_hvd.tensor.ssa import array_contraction

X = np.array([0.5, -1.0, 2.0, 0.3])
TABLE = np.array([1.0, 2.0, 3.0, 4.0])


def size_is_named(x):
    n = len(x)
    return sum(x[i] for i in range(n))


def sizes_meet(x, y):
    return np.sum(x * y) + np.median(x)


def array_from_outside(x):
    return np.sum(x * TABLE)


def in_order(x):
    y = np.zeros(4)
    for i in range(len(x)):
        y[0] = 2 * x[i]
    return y[0]


def raised(x):
    if len(x) > 10:
        raise ValueError("too long")
    return np.sum(x)


def filled_otherwise(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = y[i - 1] + y[len(x) - 1 - i]
    return np.sum(y)


def no_such_entry(x):
    y = [x[0]]
    for i in range(3):
        if i > 0:
            y.append(0.5 * y[-2])
        else:
            y.append(x[1])
    return sum(y)


def ends_descend(x, ends):
    total = 0.0
    for i in range(len(ends) - 1):
        for k in range(ends[i], ends[i + 1]):
            total += (i + 1) * x[k] ** 2
    return total


def reads_the_last_iteration(x):
    h = 0.0
    for v in x:
        h = np.tanh(h + v)
    return h


@pytest.mark.parametrize(
    ("kind", "f", "arguments"),
    [
        (packing.SizeNamed, size_is_named, (X,)),
        (SizesMet, sizes_meet, (X, X)),
        (ArrayMet, array_from_outside, (X,)),
        (InOrder, in_order, (X,)),
        (Raised, raised, (X,)),
        (NoSuchEntry, no_such_entry, (X,)),
        (EndsDescendError, ends_descend, (X, np.array([2, 0, 3]))),
        (UnreadableError, reads_the_last_iteration, (X,)),
        (array_contraction._NotFilled, filled_otherwise, (X,)),
    ],
)
def test_what_tracing_raises_inside_stays_inside(kind, f, arguments, monkeypatch):
    seen = []
    begin = kind.__init__

    def noted(self, *args, **named):
        seen.append(kind)
        begin(self, *args, **named)

    monkeypatch.setattr(kind, "__init__", noted)
    found = tensor(f)(*arguments)
    np.testing.assert_allclose(found, f(*arguments))
    assert seen


FAILING = """
def made(error):
    def f(*_):
        raise error
    return f
"""
OUT_OF_MEMORY = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes.")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("k"), "report it"),
        (AssertionError(), "report it"),
        (ZeroDivisionError("z"), "report it"),
        (RecursionError(), "nested too deeply"),
        (OUT_OF_MEMORY, "more memory than there is"),
    ],
)
@pytest.mark.parametrize(("owner", "name"), [(calls.Tracer, "binary"), (CalledFunction, "_at")])
def test_what_nobody_foresaw_is_a_tensor_error(error, words, owner, name, monkeypatch):
    namespace = {}
    exec(compile(FAILING, f"{OURS}/failing.py", "exec"), namespace)
    monkeypatch.setattr(owner, name, namespace["made"](error))
    with pytest.raises(TensorError, match=words) as raised_:
        tensor(lambda x: np.sum(x * 2))(X)
    assert raised_.value.__cause__ is error


PROGRAMS = [
    ("return {}['a'] * x[0]", "a"),
    ("return x[0] / 0", "zero"),
    ("return x.nothing", "nothing"),
    ("return [1, 2][5] * x[0]", ""),
    ("return math.sqrt(-1) * x[0]", "math"),
    ("return x[0] + 'a'", ""),
    ("return x @ x @ x", ""),
    ("return np.zeros((2, 3)) @ x", ""),
    ("return x[::0]", "step"),
    ("return x[None][0, 1, 2]", ""),
    ("return np.reshape(x, (3, 3))", ""),
    ("return int('a') * x[0]", ""),
    ("a, b = x\n    return a", ""),
    ("return max([]) + x[0]", ""),
    ("return sorted(x, key=lambda v: (v, v))", "not one number"),
    ("y = []\n    y.reverse(1)\n    return x", ""),
    ("return np.unique(x)[0]", "size=k"),
    ("for i in range(int(x[0])):\n        x = x + 1\n    return x", "data decide"),
    ("return np.linalg.solve(x, x)", ""),
    ("return np.einsum('ij,jk', x, x)", ""),
    ("return next(iter(x))", ""),
    ("return (lambda: x)(1)", ""),
    ("return x.astype('str')", ""),
    ("return np.nonexistent(x)", "nonexistent"),
    ("while x[0] > 0:\n        x = x - 1\n    return x", "at most"),
]


@pytest.mark.parametrize(("body", "words"), PROGRAMS)
def test_programs_that_python_or_numpy_refuses_are_refused_in_words(body, words):
    f = compiled(f"import math\ndef f(x):\n    {body}\n", f"<{body}>")
    with pytest.raises(TensorError) as error:
        tensor(f)(X)
    assert words in str(error.value)
    assert "report it" not in str(error.value)


def test_a_long_program_is_printed():
    f = compiled(
        "def f(x):\n"
        + "".join(f"    x = x * 1.5 + {k}\n" for k in range(600))
        + "    return x.sum()\n",
        "<long>",
    )
    g = tensor(f)
    g(X)
    assert str(g.ssa)
    assert str(g.program)
