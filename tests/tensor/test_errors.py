"""What the language does not have is refused at its source line, with what to write instead."""

import linecache
import re

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

X = np.array([1.0, 2.0, 3.0])
A = np.arange(6.0).reshape(2, 3)
SRC = np.array([0, 2, 1])

# source (with the marked part in «»), arguments, what the message says, what the help says
REFUSED = [
    ("«while x[0] > 0:»\n        x = x\n    return x", (X,), "while", "# at most 100"),
    (
        "for i in range(len(x)):\n        y = «x[i] + y»\n    return y",
        (X,),
        "previous iteration",
        "before the loop",
    ),
    (
        "for i in range(len(x)):\n        y = x[i]\n    return «y» + 1",
        (X,),
        "within the loop",
        "again",
    ),
    ("if len(x) > 3:\n        return x[0]\n    «x.sum()»", (X,), "", ""),
    ("«x[0] = 1»\n    return x", (X,), "the caller's", "copy"),
    ("y = x\n    «y.append(3)»\n    return y", (X,), "append", "y = []"),
    (
        "for v in x:\n        if v > 1:\n            «return v»",
        (X,),
        "nothing is returned",
        "for that case",
    ),
    ("return «[x[i] for i in range(len(x)) if i > 1]»", (X,), "data decide", "np.where"),
    ("return sum(x) * «np.random.rand()»", (X,), "each call", "outside"),
    ("y = []\n    «y.insert(0, x[0])»\n    return y", (X,), "in place", "[::-1]"),
    (
        "y = np.zeros(3)\n    «np.multiply.at(y, [0, 1], x)»\n    return y",
        (X,),
        "in place",
        "np.maximum",
    ),
    ("return np.sum(«np.expand_dims(x, (0, 0))»)", (X,), "repeated axis", ""),
    ("return x[«i*i»]", (X,), "not defined", ""),
    ("return sum(«x[i * i]» for i in range(len(x)))", (X,), "", ""),
    ("return sum(«x[x[i]]» for i in range(2))", (X,), "affine", "index array"),
    ("return «f(x)»", (X,), "calls itself", "range"),
    ("return [[x[j] for j in range(i)] for i in range(len(x))]", (X,), "outer index", "else 0"),
    ("return «x + x[1:]»", (X,), "do not go together", ""),
    ("return «x @ x[1:]»", (X,), "do not go together", ""),
    ("return [x[0:i] for i in range(len(x))]", (X,), "depends on an index", "mask"),
    ("return «x[x > 1]»", (X,), "data decide", "np.where"),
    ("return «np.cumsum(x[x > 0])»", (X,), "`cumsum` of entries that data choose", "np.where"),
    ("return sum(u * v for u, v in zip(«x[x > 0]», x))", (X,), "in an order", "if x[i] > 0"),
    ("return («x[x > 0] * x»).sum()", (X,), "an array beside entries", "choose of it, too"),
    ("return («x[x > 0] * x[x < 1]»).sum()", (X,), "two conditions", "choose by one"),
    ("return «np.linalg.norm(x[x > 0], 0)»", (X,), "`norm` of entries", "np.where"),
    ("return «np.dot(x[x > 0], 2.0)»", (X,), "`dot` of entries", "np.where"),
    ("return «sum(x[x > 0], 5)»", (X,), "not elementwise", "np.where"),
    ("return «x[x > 0].shape»[0]", (X,), "no shape", "np.sum(p)"),
    ("return «np.linalg.eig(x)»", (X,), "not in the tensor language", "complex"),
    ("return «np.linalg.norm(x, 3)»", (A,), "Invalid norm order for matrices", ""),
    ("return «np.bincount(np.argsort(x))»", (X,), "data", "minlength"),
    ("return «np.quantile(x, 2.0)»", (X,), "in the range [0, 1]", ""),
    ("return «np.unique(x)»", (X,), "data decide", "size=k"),
    ("return «np.nonzero(x)»", (X,), "data decide", "index array"),
    (
        "y = x.copy()\n    «y[np.floor(x).astype(int)]» = 1\n    return y",
        (X,),
        "nothing says in what range",
        "np.clip",
    ),
    ("return «x[1:][np.argsort(x)]»", (X,), "reads index 2", ""),
    ("return «x[x * 1.0]»", (X,), "a size that data decide", "np.where"),
    ("return «x[:np.argmax(x)]»", (X,), "data decide how many entries", ""),
    ("return [x[0] for i in «range(np.argmax(x))»]", (X,), "data decide how often", "int"),
    ("return «np.sum(x, axis=1)»", (X,), "axis 1", ""),
    ("return «np.sum(x, axes=1)»", (X,), "axes", "docs/numpy.md"),
    ("return «x.reshape(2, 2)»", (X,), "do not fit", ""),
    ("return «np.linalg.det(x)»", (X,), "a matrix", "x[None, :]"),
    ("return «undefined(x)»", (X,), "undefined", ""),
    ("return «x[0][1]»", (X,), "scalar", "dimensions"),
    ("return (lambda v: v)(«x[0], x[1]»)", (X,), "too many", ""),
    ("return {0: x[0]}", (X,), "strings", "tuple"),
    ("return x[0] if «x[0]» else 0", (X,), "condition", ""),
    ("return (x[0], x[1])[«len(x)»]", (X,), "constant", ""),
    ("return sum(«x[i + 1]» for i in range(len(x)))", (X,), "reads index 3 at i=2", "guard"),
    (
        "return sum(«x[i - j]» for i in range(3) for j in range(3))",
        (X,),
        "x[i-j] reads index -1",
        "",
    ),
    (
        "n = len(x)\n    return [x[i // n] for i in range(n)]",
        (X,),
        "not affine",
        "constant multiples",
    ),
    ("return x.inverse()", (X,), "no `.inverse`", "comprehensions"),
    ("return [x[i] for i in range(0.5)]", (X,), "affine", ""),
    (
        "return x[0] if all(any(i == j for j in range(2)) for i in range(2)) else 'a'",
        (X,),
        "str",
        "",
    ),
]


def define(body: str, name: str = "<cell>"):
    """Define `f(x)` as a notebook does: through `exec`, its source in `linecache`."""
    source = f"def f(x):\n    {body}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"np": np}
    exec(compile(source, name, "exec"), namespace)
    return namespace["f"]


def refused(body: str, *arguments) -> TensorError:
    f = define(body)

    def use():
        made = tensor(f)
        f.__globals__["f"] = made
        made.interpret(*arguments)

    with pytest.raises(TensorError) as error:
        use()
    return error.value


@pytest.mark.parametrize(("body", "arguments", "message", "help_"), REFUSED)
def test_unsupported_programs_are_refused_where_they_stand(body, arguments, message, help_):
    plain = body.replace("«", "").replace("»", "")
    error = refused(plain, *arguments)
    assert message in error.message
    assert help_ in error.help
    assert error.place is not None
    shown = str(error)
    assert f"<cell>:{error.place.line}:" in shown
    assert "^" in shown
    marked = [
        (number, line)
        for number, line in enumerate(f"def f(x):\n    {body}\n".splitlines(), 1)
        if "«" in line
    ]
    if marked and message:
        number, line = marked[0]
        assert error.place.line == number
        place = error.place
        part = line[line.index("«") + 1 : line.index("»")]
        assert place.text[place.column : place.end_column] in (part, *_around(line))


def _around(line: str) -> tuple[str, ...]:
    """A marked part's whole statement or expression may be underlined instead."""
    plain = line.replace("«", "").replace("»", "")
    return tuple(plain[a:b] for a in range(len(plain)) for b in range(a, len(plain) + 1))


def energy():
    @tensor
    def energy(A, x):
        n = len(x)
        return sum(A[i, j] * x[i] * x[j] for i in range(n) for j in range(n))

    return energy


ARGUMENTS = [
    ((np.ones((2, 2)), 3.0), "has no length"),
    ((np.ones(3), np.ones(3)), "fewer dimensions"),
    ((np.ones((2, 3)), np.ones(3)), "A has 2 entries"),
    ((np.ones((3, 3)), "abc"), "has no length"),
    ((np.ones((3, 3)), None), "has no length"),
    ((np.ones((3, 3)), np.ones(3) * 1j), "real numbers"),
    ((np.ones((3, 3)), np.array(["a", "b"])), "real numbers"),
    ((np.ones((3, 3)), [[1.0], [2.0, 3.0]]), "different lengths"),
    ((np.ones((3, 3)),), "missing"),
    ((np.ones((3, 3)), np.ones(3), 1.0), "too many"),
]


@pytest.mark.parametrize(("arguments", "message"), ARGUMENTS)
def test_arguments_that_do_not_fit(arguments, message):
    with pytest.raises(TensorError, match=message):
        energy().interpret(*arguments)
    with pytest.raises(TensorError, match=message):
        energy()(*arguments)


def test_declared_shapes_are_checked():
    @tensor
    def apply(A: 'Float[Array, "n m"]', x: 'Float[Array, "m"]', k: int):  # noqa: F722, F821
        return sum(A[i, j] * x[j] for i in range(A.shape[0]) for j in range(len(x))) / k

    assert apply.interpret(A, X, 2) == (A @ X).sum() / 2
    with pytest.raises(TensorError, match=r"`x` has 2 entries along axis 0, but `A` says m = 3"):
        apply.interpret(A, X[:2], 2)
    with pytest.raises(TensorError, match="declared"):
        apply.interpret(A[0], X, 2)
    with pytest.raises(TensorError, match="declared an integer"):
        apply.interpret(A, X, float("nan"))
    with pytest.raises(TensorError, match="declared"):
        apply.interpret(A > 1, X, 2)


def test_derivatives_by_what_has_none():
    f = energy()
    with pytest.raises(TensorError, match="has no parameter `z`"):
        f.grad("z")
    with pytest.raises(TensorError, match="no parameter to differentiate with respect to"):
        f.grad()

    @tensor
    def rows(A):
        return [sum(A[i, j] for j in range(A.shape[1])) for i in range(A.shape[0])]

    with pytest.raises(TensorError, match="only a scalar has a gradient"):
        rows.grad("A").interpret(A)

    @tensor
    def picked(x, src):
        return sum(x[src[e]] for e in range(len(src)))

    with pytest.raises(TensorError, match="not a real parameter"):
        picked.grad("src").interpret(X, SRC)
    with pytest.raises(TensorError, match=r"src\[1\] is 7, which reads index 7 of 3 entries"):
        picked.interpret(X, np.array([0, 7]))
    with pytest.raises(TensorError, match=r"src\[1\] is -4, which reads index -4 of 3 entries"):
        picked(X, np.array([0, -4]))


def test_reads_that_only_data_guard():
    @tensor
    def masked(x, M):
        return sum(x[i + 1] if M[i] else 0 for i in range(len(M)))

    assert masked.interpret(X, np.array([True, True, False])) == 5
    with pytest.raises(TensorError, match=r"x\[i\+1\] reads index 3 at i=2; x has 3 entries"):
        masked.interpret(X, np.array([True, True, True]))


def test_zero_size_arrays():
    empty = np.zeros(0)
    f = energy()
    none = np.zeros((0, 0))
    assert f.interpret(none, empty) == 0
    assert f(none, empty) == 0
    assert f.cost(none, empty).total == 0
    assert f.grad("x").interpret(none, empty).shape == (0,)
    assert f.grad("x")(none, empty).shape == (0,)


def test_no_source():
    namespace: dict = {}
    exec("def f(x):\n    return x", namespace)
    with pytest.raises(TensorError, match="cannot be found"):
        tensor(namespace["f"])


def test_a_program_without_types_says_so():
    with pytest.raises(TensorError, match="not known yet"):
        _ = energy().program


def test_sizes_and_indices_are_said_as_they_are_written():
    @tensor
    def shadowed(A):
        return [[A[i, i + 1] for i in range(4)] for i in range(len(A[0]))]

    @tensor
    def parts(P):
        return sum(P["a"][i] for i in range(len(P["b"][0]) + 1))

    @tensor
    def branches(x):
        return [x[i] if i < 1 else x for i in range(len(x))]

    A = np.ones((4, 3))
    for function, argument, said in (
        (shadowed, A, "A[i, i+1] reads index 3 at i=2; A has 3 entries along axis 1"),
        (shadowed, A, "if 0 <= i+1 < A.shape[1] else 0"),
        (parts, {"a": X, "b": A}, "< len(P['a']) else 0"),
        (branches, X, "an array of type [len(x)]ℝ"),
    ):
        with pytest.raises(TensorError, match=re.escape(said)):
            function(argument)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="long doubles are doubles here")
def test_types_that_jax_does_not_have_are_refused_by_name():
    def f(x):
        return np.sum(x)

    def g(x: float):
        return np.sum(np.zeros(3, dtype=np.longdouble)) + x

    def h(x):
        return np.sum(x.astype("g"))

    name = str(np.dtype(np.longdouble))
    for value in (np.zeros(3, np.longdouble), np.longdouble(1)):
        with pytest.raises(TensorError, match=f"`x` holds {name}, which JAX does not have"):
            tensor(f)(value)
    for made, x in ((g, 1.0), (h, np.ones(3))):
        with pytest.raises(TensorError, match=f"`{name}` is a type that JAX does not have"):
            tensor(made)(x)
    with pytest.raises(TensorError, match="not real numbers"):
        tensor(f)(np.zeros(3, [("a", float)]))
