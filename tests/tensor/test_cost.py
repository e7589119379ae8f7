"""The cost model and its formulas."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from programs import CASES
from random_programs import PARAMETERS, Draw, environment

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.cost import formula
from jupyter_hvd.tensor.cost.counting import RelationData, cost_at
from jupyter_hvd.tensor.cost.model import cost
from jupyter_hvd.tensor.frontend import signature
from jupyter_hvd.tensor.language import parser
from jupyter_hvd.tensor.language.predicates import conj
from jupyter_hvd.tensor.language.terms import Lambda
from jupyter_hvd.tensor.language.types import REAL, Array, IndexArray, Integer, Relation
from jupyter_hvd.tensor.polyhedral import sets
from jupyter_hvd.tensor.reference.evaluate import Environment, points

REALS = {"x": Array(parser.parse_lambda("λ(x:[n]ℝ). x[0]").parameter_type[0][1].size, REAL)}

# program over x:[n]ℝ, its cost at n = 5
COSTS = [
    ("x[0]", 0),
    ("x[0]·x[1]", 1),
    ("sin(x[0]) + 1", 2),
    ("Σ i:n. x[i]", 4),
    ("Σ i:n. [i=2]·x[i]", 0),
    ("Σ i:n. [i<3]·x[i]·x[i]", 3 + 2),
    ("Σ i:n. Σ j:n. [i=j]·x[i]", 4),
    ("Σ i:n. [n<i]·x[i]", 0),
    ("([0=1]·x[0]) + x[1]", 0),
    ("([0=0]·x[0]) + x[1]", 1),
    ("let y = ⊞ i:n. x[i]·x[i] in Σ i:n. y[i]·y[i]", 5 + 5 + 4),
    ("(⊞ i:n. x[i]·x[i])[0]", 5),
]


@pytest.mark.parametrize(("text", "expected"), COSTS)
def test_cost_of_each_constructor(text, expected):
    e = parser.parse(text, REALS)
    assert cost(e, Environment(integers={"n": 5})).total == expected
    found = formula.cost_formula(Lambda("arg", tuple(REALS.items()), e))
    assert found.evaluate(n=5) == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_formulas_of_values_and_gradients_are_exact(case):
    functions = [(case.function, case.arguments)]
    if case.name != "additions":
        functions.append((case.function.grad(*case.wrt), case.arguments))
    for f, arguments in functions:
        counted = f.cost(*arguments)
        instance, given, sizes, _ = f._at(arguments, {})
        env = signature.environment(instance.parameters, given, sizes)
        assert cost(instance.function.body, env) == replace(counted, interface=0)
        assert f.cost_formula().evaluate(env) == counted.total


def test_counts_of_random_programs_are_those_of_the_model():
    relations = [(x, t) for x, t in PARAMETERS if isinstance(t, Relation | IndexArray)]
    for seed in range(150):
        random = Random(seed)
        function = Draw(random).program(3)
        n, m = random.randrange(5), random.randrange(5)
        env = environment(random, n, max(m, 1) if n else m)
        shapes = {"R": (n, env.integers["m"]), "src": (n,)}
        data = {}
        for x, type_ in relations:
            holds = env.relations[x]
            if x == "R":
                found = np.array([holds(p) for p in np.ndindex(shapes[x])], bool)
            else:
                targets = range(env.integers["m"])
                found = np.array([next(j for j in targets if holds((i, j))) for i in range(n)], int)
            data[x] = RelationData.of(type_, found.reshape(shapes[x]))
        counted = cost_at(function.body, env.integers, data)
        assert counted == cost(function.body, env), (seed, str(function))


@tensor
def related_twice(R, S, x):
    n = len(x)
    return sum(
        x[i] * x[j] * x[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if (i, j) in R and (j, k) in S
    )


def test_counts_of_joined_relations_follow_their_tuples():
    """Each index was gone through: a gradient at n = 256 took 100 s."""
    gradient = related_twice.grad("x")
    for n in (4, 7, 2000):
        R, S = ({(i, (i * 3 + d) % n) for i in range(n) for d in range(k)} for k in (2, 3))
        x = np.ones(n)
        counted = gradient.cost(R, S, x)
        assert counted.io <= 4 * related_twice.cost(R, S, x).io
        if n < 10:
            instance, given, sizes, _ = gradient.specialised(R, S, x)
            env = signature.environment(instance.parameters, given, sizes)
            assert cost(instance.function.body, env) == replace(counted, interface=0)
    assert (
        gradient.cost({(0, 2**70), (-(2**70), 1)}, S, x).total
        == gradient.cost({(-1, -1)}, S, x).total
    )


def test_formulas_of_random_programs_are_exact():
    for seed in range(150):
        random = Random(seed)
        function = Draw(random).program(3)
        env = environment(random, random.randrange(1, 5), random.randrange(1, 5))
        found = formula.cost_formula(function)
        assert found.evaluate(env) == cost(function.body, env).total, (seed, str(function))


SETS = [
    "0≤i",
    "i≤j",
    "i+j<n",
    "i<j ∧ j<m",
    "i=j ∨ i=0",
    "2≤i ∧ j≤i+1 ∧ i≤j+1",
    "∃ k:m. k=i-j",
    "i+2≤j ∨ j+2≤i",
]


@pytest.mark.parametrize("text", SETS)
def test_symbolic_counts_are_those_of_enumeration(text):
    n, m = (t.size for _, t in parser.parse_lambda("λ(x:[n]ℝ, y:[m]ℝ). 0").parameter_type)
    binders = (("i", n), ("j", m))
    p = parser.parse_predicate(text)
    pieces = formula.symbolic_count(binders, p)
    assert pieces is not None
    for a in range(1, 6):
        for b in range(1, 6):
            env = Environment(integers={"n": a, "m": b})
            counted = sum(1 for _ in points(binders, p, env))
            assert formula.Formula(tuple(pieces)).evaluate(env) == counted


def test_a_count_with_remainders_stays_a_count():
    e = parser.parse("Σ i:n. Σ j:n. [i=2·j]·x[i]·x[j]", REALS)
    found = formula.cost_formula(Lambda("arg", tuple(REALS.items()), e))
    assert "#{" in str(found)
    for n in range(1, 8):
        assert found.evaluate(n=n) == cost(e, Environment(integers={"n": n})).total


def test_formulas_print_as_python():
    text = "λ(x:[n]ℝ, k:ℤ). Σ i:n. [i<k]·x[i]·x[i]"
    function = parser.parse_lambda(text)
    assert isinstance(function.parameter_type[1][1], Integer)
    found = formula.cost_formula(function)
    for n in range(1, 5):
        for k in range(1, 7):
            assert eval(str(found), {"n": n, "k": k}) == found.evaluate(n=n, k=k)


def test_sets_simplify_without_changing_the_meaning():
    for seed in range(300):
        random = Random(seed)
        draw = Draw(random)
        from random_programs import SIZES, Scope

        binders = tuple((f"g{k}", random.choice(SIZES)) for k in range(random.randrange(1, 3)))
        p = draw.predicate(Scope((), binders), 3)
        q = sets.simplify(p, binders)
        env = environment(random, random.randrange(1, 4), random.randrange(1, 4))
        before = sum(1 for _ in points(binders, p, env))
        assert before == sum(1 for _ in points(binders, q, env))
        assert before == sum(1 for _ in points(binders, conj(p, q), env))
