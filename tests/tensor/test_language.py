"""Terms, their printer and parser, and the normal forms as text."""

from random import Random

import pytest
from programs import CASES
from random_programs import Draw

from jupyter_hvd.tensor.derivative.reverse import adjoint
from jupyter_hvd.tensor.language import printer
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.parser import parse, parse_lambda
from jupyter_hvd.tensor.language.terms import Add, Const, Iterate, Pair, Var, substitute
from jupyter_hvd.tensor.language.types import REAL
from jupyter_hvd.tensor.ssa import convert as ssa
from jupyter_hvd.tensor.ssa import normalize as normal
from jupyter_hvd.tensor.ssa.simplify import simplify


def test_equal_terms_are_one_object():
    x = Var("x", REAL)
    assert Add(x, Const(1)) is Add(Var("x", REAL), Const(1))
    assert Const(1) is not Const(1.0)


def test_ill_typed_terms_cannot_be_built():
    with pytest.raises(TypeError, match="scalars"):
        Add(Pair(Const(1), Const(2)), Const(3))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_printed_programs_read_back(case):
    case.function.interpret(*case.arguments)
    program = case.function.program
    assert parse_lambda(str(program)) == program
    gradient = case.function.vjp(*case.wrt)
    value = case.function.interpret(*case.arguments)
    gradient.interpret(*case.arguments, value)
    assert parse_lambda(str(gradient.program)) == gradient.program


def test_random_programs_read_back():
    for seed in range(200):
        function = Draw(Random(seed)).program(5)
        assert parse_lambda(str(function)) == function
        assert printer.latex(function.body)


def test_latex():
    e = parse("Σ i:n. [i<2·k]·x_1[i]", {"x_1": parse_lambda("λ(x:[n]ℝ). 0").parameter_type[0][1]})
    assert printer.latex(e) == r"\sum_{i:n} \left[i< 2 \cdot k\right] \cdot x_{1}[i]"


def normal_form(text):
    return parse_lambda(text)


# one line a rule: before, pass, after
RULES = [
    ("(let a = u·u in a) + u", normal.lift_lets, "let a = u·u in a + u"),
    ("⊞ i:n. let a = v[i] in a·a", normal.lift_lets,
     "let a = ⊞ i:n. v[i] in ⊞ i:n. a[i]·a[i]"),
    ("[0<n]·(let a = u in a·a)", normal.lift_lets, "let a = [0<n]·u in [0<n]·a·a"),
    ("let a = (let b = u·u in b + b) in a", normal.lift_lets,
     "let b = u·u in let a = b + b in a"),
    ("⊞ a:n. Σ i:n. [a=i ∧ i<2]·(let b = v[i] in b·b)", normal.solve_sums,
     "⊞ a:n. [0≤a ∧ a<n ∧ a<2]·(let b = v[a] in b·b)"),
    ("Σ i:n. Σ j:n. [i=j+1]·v[i]·v[j]", normal.solve_sums, "Σ i:n. [0≤i-1 ∧ i-1<n]·v[i]·v[i-1]"),
    ("Σ k:n. Σ i:n. Σ j:n. [i=k+1 ∧ j<k]·v[i]·v[j]", normal.solve_sums,
     "Σ k:n. Σ j:n. [0≤k+1 ∧ k+1<n ∧ j<k]·v[k+1]·v[j]"),
    ("let a = ⊞ i:n. (v[i], u) in π0 (a[0])", normal.eliminate_pairs,
     "let a_0 = ⊞ i:n. v[i] in let a_1 = ⊞ i:n. u in a_0[0]"),
    ("(⊞ i:n. v[i] + u)[2]", normal.push_out_gens, "v[2] + u"),
    ("[0<n]·(⊞ i:n. [i<2]·v[i])", normal.push_out_gens, "⊞ i:n. [0<n ∧ i<2]·v[i]"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "transform", "after"), RULES)
def test_rules_of_the_normal_forms(before, transform, after):
    types = {"u": REAL, "v": parse_lambda("λ(v:[n]ℝ). 0").parameter_type[0][1]}
    found = str(transform(parse(before, types))).replace("\n", " ")
    assert found == after


def reversed_(text):
    function = parse_lambda(text)
    program = simplify(ssa.to_ssa(normal.normalize(function.body)))
    wrt = [function.parameter_type[0]]
    if program.statements and function.body.type == REAL:
        return str(simplify(adjoint(program, wrt, None)))
    return str(simplify(adjoint(program, wrt, ("dy", function.body.type))))


def test_adjoint_of_trace_is_eye_and_of_eye_is_trace():
    """§2.2."""
    trace = reversed_("λ(A:[n][n]ℝ). Σ i:n. A[i, i]")
    assert "let X0 = 1 in\nlet X1 = ⊞ g0:n. ⊞ g1:n. [g1=g0]·X0 in" in trace
    eye = reversed_("λ(x:ℝ). ⊞ i:n. ⊞ j:n. [i=j]·x")
    assert "Σ s0:n. X0[s0, s0]" in eye


def test_adjoint_of_convolution_is_correlation():
    """§2.1: `⊞k Σj. dy[k+j]·c[j]`."""
    text = reversed_("λ(x:[n+m]ℝ, c:[m]ℝ). ⊞ i:n. Σ j:m. x[i-j+m]·c[j]")
    assert "Σ s0:m. [g0+s0<m+n ∧ m≤g0+s0]·X0[s0]·X1[g0+s0-m]" in text


def test_adjoint_of_dead_code_adds_nothing():
    """§2.2: the adjoint of dead code is zero, and no zero is added."""
    text = reversed_("λ(x:ℝ). let z0 = x in let z1 = x·x in 2·x")
    assert "+" not in text


def test_simplification_solves_equalities():
    function = parse_lambda("λ(x:[n]ℝ). ⊞ k:n. Σ i:n. Σ j:n. [i=k+j ∧ j=0]·x[i]")
    assert str(simplify(ssa.to_ssa(normal.normalize(function.body)))) == "let X0 = x in\nX0"


def test_names_of_a_loop_stay_apart_where_one_is_renamed():
    """What is put in has the name of the first; renamed, that is not to meet the second, which the body does not read."""
    start = Var("u", REAL)
    loop = Iterate("k", Affine.of(2), ("s_1", "s_2"), (start, start), Pair(Var("v", REAL), start))
    made = substitute(loop, {"v": Var("s_1", REAL)})
    assert len({*made.names_bound, "s_1"}) == 3
