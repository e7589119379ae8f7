"""What the paper proves, of random programs in exact fractions; and that the checks would catch
a rule that is wrong.
"""

from __future__ import annotations

from random import Random

import pytest
import theorems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import environment

from jupyter_hvd.tensor.derivative import forward
from jupyter_hvd.tensor.derivative import reverse as adjoint
from jupyter_hvd.tensor.language import predicates
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.parser import parse, parse_lambda
from jupyter_hvd.tensor.language.terms import Guard, Lambda, Let, Mul, Sum, Term, Var, lets, rebuild
from jupyter_hvd.tensor.language.types import Array
from jupyter_hvd.tensor.ssa import convert as ssa
from jupyter_hvd.tensor.ssa import normalize as normal
from jupyter_hvd.tensor.ssa import simplify
from jupyter_hvd.tensor.ssa.builder import Builder
from jupyter_hvd.tensor.ssa.program import Addition

PROGRAMS = 200  # `make fuzz-tensor` draws as many as one likes


@settings(
    max_examples=PROGRAMS,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 2**48))
@pytest.mark.thorough
def test_random_programs_obey_the_theorems(seed):
    theorems.check(Random(seed))


@pytest.mark.parametrize("seed", range(40))
def test_some_random_programs_obey_the_theorems(seed):
    """The test above draws many more."""
    theorems.check(Random(seed))


@pytest.mark.parametrize("seed", [2000280, 2000650])
def test_solved_sums_count_their_terms_jointly(seed):
    """The condition that replaces a sum used to stand between other sums and their guard, which then added one more term."""
    theorems.check(Random(seed), 3)


def test_an_index_of_an_inner_sum_solves_no_outer_one():
    """`Σ i:2. [p(i)]·Σ i:n. [i=0]·u` has two terms, whose inner indices hide the outer one; it was taken for one term"""
    theorems.check(Random(3001243), 3)


# A check that cannot fail shows nothing: each of these breaks one rule and must be caught.


def caught(monkeypatch, module, name, broken, programs=400):
    monkeypatch.setattr(theorems, "RATIOS", theorems.Ratios())
    monkeypatch.setattr(module, name, broken)
    for seed in range(programs):
        try:
            theorems.check(Random(seed))
        except AssertionError:
            return True
    return False


def test_a_wrong_sign_in_the_product_rule_is_caught(monkeypatch):
    def halved(left, right):
        made = forward_times(left, right)
        return made and Mul(parse("-1", {}), made)

    forward_times = forward.multiply_terms
    assert caught(monkeypatch, forward, "multiply_terms", halved)


def test_a_forgotten_guard_on_a_constant_is_caught(monkeypatch):
    """(5.29) as printed: `⊞i.[p]·c ⇝ C`."""
    right = ssa._convert_term

    def printed(e, outer, p, env, builder):
        p = predicates.TRUE if type(e).__name__ == "Const" else p
        return right(e, outer, p, env, builder)

    assert caught(monkeypatch, ssa, "_convert_term", printed)


def test_summing_without_the_inner_guard_is_caught(monkeypatch):
    """(5.34) as printed: the contraction's mask has `p`, but not the guard of what is summed."""

    def printed(e):
        binders = []
        while isinstance(e, Sum):
            binders.append((e.index, e.size))
            e = e.body
        return tuple(binders), predicates.TRUE, e

    assert caught(monkeypatch, ssa, "strip_sums", printed)


def test_lets_in_the_printed_order_are_caught(monkeypatch):
    """(5.10) as printed puts the outer binding before the inner one that it needs."""
    right = normal._split_lets

    def printed(e):
        if isinstance(e, Let):
            before, value = right(e.value)
            after, body = right(e.body)
            return [(e.name, value), *before, *after], body
        return right(e)

    monkeypatch.setattr(normal, "_split_lets", printed)
    e = parse("let x = (let y = u + 1 in y·y) in x + x", {"u": theorems.REAL})
    env = environment(Random(0), 1, 1)
    with pytest.raises(KeyError):
        theorems.passes_keep_value_and_cost(Lambda("arg", (), e), env, theorems.PASSES[:2])


def test_a_cotangent_keeps_its_predicate(monkeypatch):
    """Dropping the predicate of the last inner product, as §6.3 allows for the cost, would change the gradient."""
    binders = (("g0", Affine.of("n")),)
    builder = Builder()
    x = builder.add_statement(ssa.Input("x", Array(Affine.of("n"), theorems.REAL), (), binders))
    first, second = (predicates.compare("=", "g0", k) for k in (0, 1))
    y = builder.add_statement(ssa.Addition(binders, first, x, second, x))
    program = builder.build_program(y)
    wrt, here = [("x", program[x].type)], environment(Random(0), 3, 1)
    here.values |= {"x": [1, 2, 3], "dy": [5, 6, 7]}

    def pulled():
        return theorems.evaluate(
            ssa.to_term(adjoint.adjoint(program, wrt, ("dy", wrt[0][1]))), here
        )

    assert pulled() == [5, 6, 0]
    monkeypatch.setattr(Builder, "add_view", lambda _self, name, *_rest: name)
    monkeypatch.setattr(adjoint._Reverse, "_merge_cotangents", lambda self, s: self.due[s.name][0])
    assert pulled() == [5, 6, 7]


def test_fusing_a_product_that_is_read_twice_is_caught(monkeypatch):
    monkeypatch.setattr(simplify, "_is_injective", lambda *_: True)
    f = parse_lambda("λ(x:[n]ℝ). let y = ⊞ i:n. x[i]·x[i] in Σ j:n. Σ i:n. y[i]")
    env = environment(Random(0), 3, 1)
    env.values["x"] = env.values["v"]
    e = ssa.to_term(ssa.to_ssa(normal.normalize(f.body)))
    with pytest.raises(AssertionError, match="raised the cost"):
        theorems.passes_keep_value_and_cost(
            Lambda("arg", f.parameter_type, e), env, theorems.PASSES[5:]
        )


def test_adding_without_masks_breaks_the_bound(monkeypatch):
    """Merging cotangents by a plain addition, as adjoints without sparsity do, costs more than
    the theorem allows.
    """

    def unmasked(self, statement):
        (dy, _), *others = self.due[statement.name]
        for e, _ in others:
            added = adjoint.Addition(statement.rhs.gens, predicates.TRUE, dy, predicates.TRUE, e)
            dy = self.builder.add_statement(added)
        return dy, predicates.TRUE

    text = "λ(x:[n]ℝ). x[0]" + "".join(f" + x[{k}]" for k in range(1, 20))
    f = parse_lambda(text)
    program = ssa.to_ssa(normal.normalize(f.body))
    env = environment(Random(0), 1, 1)
    env.integers["n"] = 20

    def cost_of_gradient():
        reverse = adjoint.adjoint(program, [("x", f.parameter_type[0][1])], None)
        return theorems.cost(ssa.to_term(simplify.remove_dead_code(reverse)), env).total

    masked = cost_of_gradient()
    monkeypatch.setattr(adjoint._Reverse, "_merge_cotangents", unmasked)
    assert masked == 0
    assert cost_of_gradient() > 4 * (19 + 20 + 1)


def test_the_generator_covers_every_constructor():
    seen: set[str] = set()

    def walk(e: Term) -> Term:
        seen.add(type(e).__name__)
        if isinstance(e, Guard):
            see(e.condition)
        return rebuild(e, walk)

    def see(p):
        seen.add(type(p).__name__)
        for part in getattr(p, "parts", (getattr(p, "body", None),)):
            if part is not None:
                see(part)

    for seed in range(150):
        walk(theorems.Draw(Random(seed)).program(4).body)
    assert seen == {
        *(
            [
                "Var",
                "Const",
                "Add",
                "Mul",
                "Call",
                "Pair",
                "Proj",
                "Gen",
                "Sum",
                "At",
                "Guard",
                "Let",
            ]
        ),
        *(["Compare", "Related", "And", "Or", "Exists"]),
    }


def chain_ratio(arity, length=40):
    """`$IO(Dᵀ)/$IO` of y ↦ f(y, …, y), `length` times over."""
    from jupyter_hvd.tensor.derivative.primitives import define_primitive
    from jupyter_hvd.tensor.language.function import parameter_names
    from jupyter_hvd.tensor.language.terms import Call

    names = parameter_names(arity)
    body = parse("·".join(names), dict.fromkeys(names, theorems.REAL))
    f = define_primitive(f"chained{arity}", arity, body)
    bindings, e = [], Var("u", theorems.REAL)
    for k in range(length):
        bindings.append((f"y{k}", Call(f, (e,) * arity)))
        e = Var(f"y{k}", theorems.REAL)
    program = ssa.to_ssa(lets(bindings, e))
    reverse = adjoint.adjoint(program, [("u", theorems.REAL)], ("dy", theorems.REAL))
    env = environment(Random(0), 1, 1)
    spent = theorems.cost(ssa.to_term(program), env).total + 2
    return (theorems.cost(ssa.to_term(reverse), env).total + 3) / spent


def test_primitives_of_three_arguments_break_the_bound():
    """Theorem 6.55 needs black boxes of at most two arguments: of k, each call costs 2k in reverse."""
    assert chain_ratio(1) <= 4
    assert chain_ratio(2) <= 4
    assert 4 < chain_ratio(3) <= 6


def test_the_masks_of_many_single_reads_stay_short():
    x = Array(Affine.of("n"), theorems.REAL)
    reads = parse(" + ".join(f"x[{2 * k}]" for k in range(64)), {"x": x})
    program = simplify.simplify(ssa.to_ssa(normal.normalize(reads)))
    gradient = adjoint.adjoint(program, [("x", x)], None)
    masks = [
        p
        for s in gradient.statements
        if isinstance(s.rhs, Addition)
        for p in (s.rhs.left_mask, s.rhs.right_mask)
    ]
    parts = [len(p.parts) if isinstance(p, predicates.Or) else 1 for p in masks]
    assert sum(parts) < 64 * 16  # one after the other 64² / 2
