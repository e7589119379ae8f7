"""Lowerings that share an MLIR context give the modules that they give in contexts of their own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir

from . import mlir_contexts


def test_functions_lowered_in_one_context_have_the_same_modules(monkeypatch) -> None:
    functions = (lambda x: jnp.sin(x) @ x, lambda x: jnp.cumsum(x) + jnp.arange(3.0))

    def modules() -> list[str]:
        return [
            jax.jit(lambda x, f=f: f(x)).lower(np.ones(3, "float32")).as_text() for f in functions
        ]

    contexts: list[None] = []

    def counted() -> object:
        contexts.append(None)
        return own()

    own = getattr(mlir.make_ir_context, "__wrapped__", mlir.make_ir_context)
    monkeypatch.setattr(mlir, "make_ir_context", counted)
    alone = modules()
    assert len(contexts) == 2
    contexts.clear()
    monkeypatch.setattr(mlir, "make_ir_context", mlir_contexts.shared(counted))
    assert modules() == alone
    assert len(contexts) == 1


def test_a_context_is_replaced_and_stays_with_its_thread(monkeypatch) -> None:
    monkeypatch.setattr(mlir_contexts, "LOWERINGS", 2)
    context = mlir_contexts.shared(object)
    first, second, third = context(), context(), context()
    assert first is second is not third
    with ThreadPoolExecutor(1) as other:
        assert other.submit(context).result() is not third
