"""Python as the tensor language reads it."""

import subprocess
import sys
from fractions import Fraction

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.decorator import DEPTH, _snapshot_contents

X = np.array([1.0, 2.0, 3.0])
A = np.arange(9.0).reshape(3, 3)


@tensor
def scale(v, k):
    twice = v * 2
    return twice * k


@tensor
def square_sum(x):
    return sum(x[i] ** 2 for i in range(len(x)))


SYNTAX = {
    "bracket": lambda: _f("return sum((i < 2) * x[i] for i in range(len(x)))"),
    "chain": lambda: _f("return sum(x[i] if 0 < i <= 2 and not i == 1 else 1 for i in range(3))"),
    "any": lambda: _f("return sum(x[i] if any(2*j == i for j in range(3)) else 0 for i in range(3))"),
    "all": lambda: _f("return sum(x[i] if all(j <= i for j in range(3)) else 0 for i in range(3))"),
    "filter": lambda: _f("return sum(x[i] for i in range(len(x)) if i != 1)"),
    "triangle": lambda: _f("return sum(x[i] * x[j] for i in range(3) for j in range(i + 1, 3))"),
    "step": lambda: _f("return sum(x[i] for i in range(0, 3, 2))"),
    "list": lambda: _f("y = [x[0], 2 * x[1], x[2]]\n    return sum(y[i] * x[i] for i in range(3))"),
    "last": lambda: _f("return x[-1] - x[-2]"),
    "tuple": lambda: _f("a, b = x[0], (x[1], x[2])\n    c, d = b\n    return a - c * d"),
    "powers": lambda: _f("return x[0] ** 3 + x[1] ** 4 + x[2] ** 0.5 + x[1] ** -1 + 2 ** x[0]"),
    "calls": lambda: _f("return scale(x[0], scale(x[1], x[2]))"),
    "loop of calls": lambda: _f("return sum(scale(x[i], x[0]) for i in range(len(x)))"),
    "math": lambda: _f("return math.exp(-x[0]) / (1 + np.tanh(x[1])) + max(x[0], x[1], 2.5) + abs(-x[2])"),
    "sizes": lambda: _f("n = len(x)\n    return sum(x[i] for i in range(n)) / n + n * x[0] + (n - 1) / 2"),
    "rows": lambda: _f("y = [[x[i] * x[j] for j in range(3)] for i in range(3)]\n    return sum(y[1][k] for k in range(3))"),
    "gradient": lambda: _f("g = square_sum_grad(x)\n    return sum(g[i] * x[i] for i in range(len(x)))"),
}  # fmt: skip


def _f(body):
    import linecache
    import math

    source = f"def f(x):\n    {body}\n"
    name = f"<{hash(body)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"np": np, "math": math, "scale": scale, "square_sum": square_sum}
    scope["square_sum_grad"] = square_sum.grad("x")
    exec(compile(source, name, "exec"), scope)
    return tensor(scope["f"])


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_means_what_python_means(name):
    f = SYNTAX[name]()
    if name == "gradient":
        expected = 2 * (X**2).sum()
    else:
        f.python.__globals__["scale"] = scale.python
        expected = f.python(X)
        f.python.__globals__["scale"] = scale
    assert f.interpret(X) == pytest.approx(expected, rel=1e-12)
    assert float(f(X)) == pytest.approx(expected, rel=1e-12)


def test_relations_of_every_kind():
    @tensor
    def pairs(x, R, src, S):
        n = len(x)
        by_mask = sum(x[i] * x[j] for i in range(n) for j in range(n) if R[i, j])
        by_index = sum(x[src[e]] * x[src[e + 1]] for e in range(len(src) - 1))
        by_tuple = sum(x[i] - x[j] for i in range(n) for j in range(n) if (i, j) in S)
        return by_mask + 2 * by_index + by_tuple + sum(x[i] for i in range(n) if src[0] == i)

    R = A > 4
    src, S = np.array([2, 0, 1]), {(0, 1), (2, 1)}
    expected = pairs.python(X, R, src, S)
    assert pairs.interpret(X, R, src, S) == expected
    assert float(pairs(X, R, src, S)) == expected


def test_exact_fractions():
    x = [Fraction(1, 3), Fraction(1, 7), Fraction(2)]
    assert square_sum.interpret(x) == Fraction(1, 9) + Fraction(1, 49) + 4
    assert list(square_sum.grad("x").interpret(x)) == [2 * v for v in x]


def test_derivatives_compose():
    hvp = square_sum.grad("x").jvp("x")
    np.testing.assert_allclose(hvp.interpret(X, X), 2 * X)
    third = square_sum.hessian("x").jvp("x")
    np.testing.assert_allclose(third.interpret(X, X), np.zeros((3, 3)))
    twice = square_sum.vjp("x").vjp("x")
    assert list(twice.__signature__.parameters) == ["x", "dy", "dy_1"]
    np.testing.assert_allclose(twice.interpret(X, 1.0, X), 2 * X)


def test_hessian_of_a_quadratic_form_costs_one_addition_an_entry():
    @tensor
    def form(A: 'Float[Array, "n n"]', x: 'Float[Array, "n"]'):  # noqa: F722, F821
        n = len(x)
        return sum(A[i, j] * x[i] * x[j] for i in range(n) for j in range(n))

    np.testing.assert_allclose(form.hessian("x").interpret(A, X), A + A.T)
    assert str(form.hessian("x").cost_formula()) == "n**2"


def test_the_paper_probe_of_a_convolution():
    """`D` of a convolution at a one-hot input is `[0≤i-2<m]·c[i-2]` (§2.1): no operation is
    left.
    """

    @tensor
    def convolve(x, c):
        n, m = len(x), len(c)
        return [sum(x[i - j] * c[j] if i - j >= 0 else 0 for j in range(m)) for i in range(n)]

    forward = convolve.jvp("x")

    @tensor
    def probe(x, c):
        hot = [1 if k == 2 else 0 for k in range(len(x))]
        return forward(x, c, hot)

    x, c = np.arange(6.0), np.array([5.0, 7.0])
    np.testing.assert_allclose(probe.interpret(x, c), [0, 0, 5, 7, 0, 0])
    assert probe.ssa.statements[-1].rhs.sums == ()
    assert "c" in str(probe.ssa)
    from jupyter_hvd.tensor.cost.model import cost
    from jupyter_hvd.tensor.reference.evaluate import Environment
    from jupyter_hvd.tensor.ssa.convert import to_term

    sizes = {"x_0": 6, "c_0": 2}
    assert cost(to_term(probe.ssa), Environment(integers=sizes)).total == 0


@tensor
def damped(x, rate=0.5, shift=0.25):
    return sum(rate * (x[i] - shift) ** 2 for i in range(len(x)))


def test_a_default_is_the_constant_that_it_is_until_something_is_passed():
    x = np.linspace(0.0, 1.0, 5)
    gradient = damped.grad("x")

    def slopes(rate=0.5, shift=0.25):
        return 2 * rate * (x - shift)

    for _ in range(2):  # a call that is known is like the first
        np.testing.assert_allclose(gradient(x), slopes(), rtol=1e-6)
        np.testing.assert_allclose(gradient(x, 2.0), slopes(2.0), rtol=1e-6)
        np.testing.assert_allclose(gradient(x, shift=1.0), slopes(shift=1.0), rtol=1e-6)
        np.testing.assert_allclose(gradient(shift=0.0, x=x, rate=1.0), slopes(1.0, 0.0), rtol=1e-6)
        np.testing.assert_allclose(gradient(x, 3.0), slopes(3.0), rtol=1e-6)
    assert gradient.specialised(x, 2.0).constants == (("shift", 0.25),)
    np.testing.assert_allclose(jax.jit(gradient)(x), slopes(), rtol=1e-6)
    np.testing.assert_allclose(damped.grad("rate")(x), sum((x - 0.25) ** 2), rtol=1e-6)
    np.testing.assert_allclose(damped.vjp("x")(x, dy=2.0), 2 * slopes(), rtol=1e-6)
    np.testing.assert_allclose(damped.vjp("x")(x, 0.5, 0.25, 2.0), 2 * slopes(), rtol=1e-6)


def test_what_is_missing_or_none_of_the_parameters_is_named():
    x = np.ones(3)
    for call, said in (
        (lambda: damped.vjp("x")(x), "missing a required argument: 'dy'"),
        (lambda: damped(rate=1.0), "missing a required argument: 'x'"),
        (lambda: damped(x, speed=1.0), "unexpected keyword argument 'speed'"),
        (lambda: damped(x, x=x), "multiple values for argument 'x'"),
        (lambda: damped(x, 1.0, 1.0, 1.0), "too many positional arguments"),
    ):
        with pytest.raises(TensorError, match=said):
            call()


def test_types_are_known_before_any_call_where_they_are_declared():
    @tensor
    def norm(x: 'Float[Array, "n"]'):  # noqa: F821
        return sum(x[i] * x[i] for i in range(len(x)))

    assert str(norm.program) == "λ(x:[n]ℝ).\nΣ i:n. x[i]·x[i]"
    assert str(norm.cost_formula()) == "2*n - 1"
    assert "let X1 = Σ s0:n. X0[s0]·X0[s0] in" in str(norm.ssa)


def test_jax_transforms_compose_from_outside():

    np.testing.assert_allclose(jax.jit(square_sum.jax)(X), 14)
    np.testing.assert_allclose(jax.grad(square_sum.jax)(X), 2 * X)
    np.testing.assert_allclose(jax.vmap(square_sum.grad("x").jax)(A), 2 * A)


def test_importing_needs_neither_jax_nor_the_parsers():
    code = (
        "import sys, jupyter_hvd.tensor\n"
        "assert not {'jax', 'libcst', 'islpy', 'tensorflow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_indices_that_were_changed_in_place_are_those_of_the_call():
    @tensor
    def picked(x, k):
        return sum(x[k[e]] for e in range(len(k)))

    k = np.arange(2, dtype=np.int32)
    np.testing.assert_allclose(picked(X, k), 3)
    k[:] = 2
    np.testing.assert_allclose(picked(X, k), 6)
    np.testing.assert_allclose(picked(X, np.arange(2, dtype=np.int32)), 3)


def test_a_call_does_not_import_the_converter_s_parser(tmp_path):
    file = tmp_path / "total.py"
    file.write_text(
        "import sys, numpy as np\n"
        "from jupyter_hvd.tensor import tensor\n"
        "@tensor\n"
        "def total(x):\n"
        "    return sum(x[i] for i in range(len(x)))\n"
        "assert total.grad('x')(np.ones(2)).sum() == 2\n"
        "assert 'libcst' not in sys.modules\n"
    )
    subprocess.run([sys.executable, file], check=True)


def test_functions_of_notebook_cells():
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    cell = (
        "from jupyter_hvd.tensor import tensor\n"
        "@tensor\n"
        "def total(x):\n"
        "    return sum(x[i] for i in range(len(x)))\n"
        "value = total.interpret([1.0, 2.0])\n"
        "@tensor\n"
        "def wrong(x):\n"
        "    with x: pass\n"
        "    return x\n"
    )
    result = shell.run_cell(cell, silent=True)
    assert shell.user_ns["value"] == 3
    assert "to the caller" in result.error_in_exec.help
    assert result.error_in_exec.place.text == "    with x: pass"


def module_with(tmp_path, source):
    """The namespace of a module with this source, read from a file as an import would."""
    path = tmp_path / f"module_{abs(hash(source))}.py"
    path.write_text("from jupyter_hvd.tensor import tensor\n" + source)
    namespace = {"__name__": path.stem}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    return namespace


TOTAL = "@tensor\ndef total(x):\n    return sum(c * x[i] for i in range(len(x)))\nc = 1\n"


@pytest.mark.parametrize(
    ("name", "other"),
    [("sum", "max"), ("range", "lambda n: __builtins__['range'](n - 1)")],
)
def test_a_name_of_a_builtin_that_means_something_else_is_refused(tmp_path, name, other):
    found = module_with(tmp_path, TOTAL + f"{name} = {other}\n")
    with pytest.raises(TensorError, match=r"not Python's own|not in the tensor language"):
        found["total"](X)
    del found[name]
    np.testing.assert_allclose(found["total"](X), 6)


def test_a_name_of_a_builtin_is_what_it_means_here(tmp_path):
    found = module_with(tmp_path, TOTAL + "len = lambda x: 2\n")
    assert found["total"](X) == X[0] + X[1]
    del found["len"]
    np.testing.assert_allclose(found["total"](X), 6)


def test_what_a_function_takes_from_outside_is_noticed(tmp_path):
    outer = "@tensor\ndef outer(x):\n    return total(x) + 1\ngradient = outer.grad('x')\n"
    found = module_with(tmp_path, TOTAL + outer)
    np.testing.assert_allclose(found["outer"](X), 7)
    found["c"] = 3.0
    np.testing.assert_allclose(found["total"](X), 18)
    np.testing.assert_allclose(found["outer"](X), 19)
    np.testing.assert_allclose(found["gradient"](X), [3, 3, 3])
    # What is called as a parameter or an index is may change outside: that is another thing.
    instance = found["total"].instance
    found["x"], found["i"] = 1, 2
    found["total"](X)
    assert found["total"].instance is instance


@pytest.mark.parametrize(
    ("held", "words"),
    [({(0.5, 1)}, "float"), ({("a", 1), (0, 1)}, "str"), ({(0, None)}, "None")],
)
def test_a_set_holds_integers(held, words):
    @tensor
    def over(R, x):
        return sum(x[i] * x[j] for i in range(3) for j in range(3) if (i, j) in R)

    with pytest.raises(TensorError, match=rf"`R` has .*{words}.* is not an index"):
        over(held, X)


HOLDERS = """
import types

class Config:
    rate = 1.0

class Shared:
    rate = 1.0

config, listed, named = Config(), [1.0], {"rate": 1.0}
nested, spaced = ([1.0],), types.SimpleNamespace(inner=types.SimpleNamespace(rate=1.0))

def helped(y):
    return listed[0] * y

def by_config(c, y):
    return c.rate * y
"""
CHANGES = {
    "config.rate": lambda found: setattr(found["config"], "rate", 3.0),
    "Shared.rate": lambda found: setattr(found["Shared"], "rate", 3.0),
    "spaced.inner.rate": lambda found: setattr(found["spaced"].inner, "rate", 3.0),
    "listed[0]": lambda found: found["listed"].__setitem__(0, 3.0),
    "named['rate']": lambda found: found["named"].update(rate=3.0),
    "nested[0][0]": lambda found: found["nested"][0].__setitem__(0, 3.0),
    "helped(1)": lambda found: found["listed"].__setitem__(0, 3.0),
    "by_config(config, 1)": lambda found: setattr(found["config"], "rate", 3.0),
}


@pytest.mark.parametrize("read", CHANGES)
def test_what_is_changed_in_place_outside_is_noticed(read, tmp_path):
    """The same list, dict or object, with something else in it: the old number was taken."""
    text = f"@tensor\ndef f(x):\n    return {read} * sum(x[i] for i in range(len(x)))\n"
    found = module_with(tmp_path, HOLDERS + text)
    f = found["f"]
    gradient = f.grad("x")
    for _ in range(2):
        np.testing.assert_allclose(f(X), 6)
        np.testing.assert_allclose(gradient(X), [1, 1, 1])
    CHANGES[read](found)
    for _ in range(2):
        np.testing.assert_allclose(f(X), 18)
        np.testing.assert_allclose(f.interpret(X), 18)
        np.testing.assert_allclose(gradient(X), [3, 3, 3])


def test_what_can_be_called_and_not_hashed_may_hold_a_number(tmp_path):
    source = "import dataclasses\n\n@dataclasses.dataclass\nclass Rate:\n    by: float = 2.0\n\n"
    source += "    def __call__(self):\n        return 0\n\nrate, unused = Rate(), [Rate()]\n\n"
    text = "@tensor\ndef f(x):\n    return rate.by * sum(x[i] for i in range(3))\n"
    found = module_with(tmp_path, source + text)
    np.testing.assert_allclose(found["f"](X), 12)
    found["rate"].by = 3.0
    np.testing.assert_allclose(found["f"](X), 18)
    assert hash(_snapshot_contents(found["unused"], DEPTH))


def test_a_function_on_one_line(tmp_path):
    found = module_with(
        tmp_path, "@tensor\ndef twice(x): return [2 * x[i] for i in range(len(x))]\n"
    )
    np.testing.assert_allclose(found["twice"](X), 2 * X)


def test_long_sums_and_products(tmp_path):
    parts = [f"x[{k % 3}]" for k in range(300)]
    mixed = "".join(f" {'+-'[k % 2]} {part}" for k, part in enumerate(parts)).removeprefix(" + ")
    found = module_with(
        tmp_path,
        f"@tensor\ndef added(x):\n    return {mixed}\n"
        f"@tensor\ndef multiplied(x):\n    return {' * '.join(parts)}\n",
    )
    x = np.array([1.0, 0.5, 2.0])
    for name in ("added", "multiplied"):
        f = found[name]
        np.testing.assert_allclose(f.interpret(x), f.python(x))
        np.testing.assert_allclose(f(x), f.python(x), rtol=1e-5)
        assert f.cost(x).total >= 299


def test_choices_are_nested_as_deeply_as_python_takes_them(tmp_path):
    cases = " else ".join(f"x[{k % 3}] if i == {k}" for k in range(150))
    found = module_with(
        tmp_path, f"@tensor\ndef f(x):\n    return [{cases} else 0 for i in range(3)]\n"
    )
    np.testing.assert_allclose(found["f"].interpret(X), X)


def test_a_helper_is_noticed(tmp_path):
    helper = "def twice(x):\n    return c * x\nc = 2.0\n"
    outer = "@tensor\ndef total(x):\n    return sum(twice(x))\ngradient = total.grad('x')\n"
    found = module_with(tmp_path, helper + outer)
    np.testing.assert_allclose(found["total"](X), 12)
    found["c"] = 3.0
    np.testing.assert_allclose(found["total"](X), 18)
    np.testing.assert_allclose(found["gradient"](X), [3, 3, 3])
    found["twice"] = np.sin
    np.testing.assert_allclose(found["total"](X), np.sin(X).sum())


@pytest.mark.parametrize(
    ("helper", "said"),
    [
        ("def f(x):\n    while True:\n        x = x + 1\n    return x\n", "while"),
        ("f = eval('lambda x: x')\n", "lambda"),
        ("def f(x):\n    return f(x)\n", "calls itself"),
        ("def f(x, y):\n    return x\n", "missing a required argument"),
    ],
)
def test_a_helper_that_is_not_in_the_language_is_refused(tmp_path, helper, said):
    found = module_with(tmp_path, helper + "@tensor\ndef total(x):\n    return sum(f(x))\n")
    with pytest.raises(TensorError, match=said):
        found["total"](X)


def test_what_calls_a_helper_of_its_own_name_does_not_call_itself(tmp_path):
    found = module_with(tmp_path, "def loss(x):\n    return sum(x)\nother = loss\n" + TOTAL_LOSS)
    np.testing.assert_allclose(found["loss"](X), 12)


TOTAL_LOSS = "@tensor\ndef loss(x):\n    return 2 * other(x)\n"


def test_long_programs_have_derivatives_costs_and_text():
    @tensor
    def rolled_out(x, y):
        for _ in range(30):
            a = x * y
            b = y + a * a
            c = a * b + b
            x = x + 0.001 * a * c
            y = y - 0.001 * b + 0.001 * x * a
        return np.sum(x * y)

    x = np.full(2, 0.1)
    gradient = rolled_out.value_and_grad("x")
    gradient(x, x)
    assert gradient.cost(x, x).total <= 4 * rolled_out.cost(x, x).total
    assert gradient.cost_formula().evaluate(**gradient.last_sizes) == gradient.cost(x, x).total
    assert str(gradient.program)
    gradient.interpret(x, x)
    limit = sys.getrecursionlimit()
    assert limit < 10_000
