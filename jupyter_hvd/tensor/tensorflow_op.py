"""A tensor function as a TensorFlow op, with the tensor language's gradient.

Its kernel is the function's own JAX kernel, called from TensorFlow: sizes may differ from call to call, relations and index
arrays are read as they come, and no array is copied but to and from a GPU. TensorFlow so cannot compile it: in a `tf.function`
it is one call of Python, and `jit_compile=True` around it is an error that TensorFlow tells.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from .language.errors import TensorError
from .language.pairs import Laid, from_pairs, lay_out, soa
from .language.types import Layout, Product, Type, dimensions, leaves

#: What an axis of unknown length may be taken to have, to find out what a function returns: see `_infer_result`.
ANY_LENGTH = 2


class Differentiable(Protocol):
    """The interface of a tensor function that the op needs."""

    __name__: str
    __signature__: inspect.Signature

    def __call__(self, *args: Any) -> Any: ...

    def specialised(self, *args: Any) -> Any: ...

    def lay_out_argument(self, parameter: str, value: Any) -> Any: ...

    def vjp(self, *names: str) -> Self: ...


class TensorFlowOp:
    """`f.tf`: takes what `f` takes, its arrays as tensors, variables or NumPy's arrays, and gives tensors.

    Gradients by tensors and variables of floats are `f.vjp`'s, and so are theirs. Where several types of floats meet, all
    are taken in the widest. Raises TensorError where the arguments do not fit; within a `tf.function` TensorFlow wraps what
    only their values show.
    """

    def __init__(self, function: Differentiable) -> None:
        self.function = function
        self.__name__ = f"{function.__name__}_tf"
        self.__doc__ = function.__doc__
        self.__signature__ = function.__signature__
        self._pullbacks: dict[tuple[str, ...], TensorFlowOp] = {}

    def __repr__(self) -> str:
        return f"<TensorFlow op {self.function.__name__}{self.__signature__}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        # AutoGraph would translate this file, and what it does is done once.
        return tf.autograph.experimental.do_not_convert(self._call)(args, kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call the function with TensorFlow values; return tensors whose gradients come from `vjp`."""
        import tensorflow as tf

        arguments = self._bind_arguments(args, kwargs)
        tensors = [t for value in arguments.values() for t in _list_tensors(value)]
        type_, layout, shapes, dtype = self._infer_result(arguments, tensors)

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def op(*inputs: Any) -> Any:
            kernel, types = self._make_numpy_call(arguments, dtype), [dtype] * len(shapes)
            made = tf.numpy_function(kernel, inputs, types, stateful=False)
            found = (
                made if isinstance(made, list | tuple) else [made]
            )  # one alone, when it is eager
            for tensor, shape in zip(found, shapes, strict=True):
                tensor.set_shape(shape)

            def pulled(*cotangents: Any) -> Any:
                return self._pull_back(arguments, inputs, (type_, layout), cotangents)

            return tuple(found) if len(shapes) > 1 else found[0], pulled

        found = op(*tensors)
        parts = iter(found if len(shapes) > 1 else [found])
        return from_pairs(_nest_pairs(type_, parts), layout)

    def _bind_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, with TensorFlow's values as tensors."""
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TensorError(f"{self.__name__}{self.__signature__}: {error}") from error
        bound.apply_defaults()
        return {
            x: _convert_argument(self.function.lay_out_argument(x, value))
            for x, value in bound.arguments.items()
        }

    def _make_numpy_call(
        self, arguments: Mapping[str, Any], dtype: Any
    ) -> Callable[..., list[Any]]:
        """Return the function of the tensors only, as NumPy arrays, with its results in a list."""

        def run(*arrays: Any) -> list[Any]:
            found = self.function(*_replace_all_tensors(arguments, arrays))
            return [
                np.asarray(part, dtype.as_numpy_dtype)
                for part in _iterate_leaves_in_order(lay_out(found))
            ]

        return run

    def _pull_back(
        self,
        arguments: Mapping[str, Any],
        inputs: tuple[Any, ...],
        result: tuple[Type, Layout],
        cotangents: tuple[Any, ...],
    ) -> list[Any]:
        """Return the cotangents of the tensors, computed by `f.vjp` as another op; None for tensors that are not floats."""
        given = iter(inputs)
        present = {x: _replace_tensors(value, given) for x, value in arguments.items()}
        names = tuple(
            x for x, value in present.items() if any(map(_is_float, _list_tensors(value)))
        )
        if not names:
            return [None] * len(inputs)
        if names not in self._pullbacks:
            self._pullbacks[names] = TensorFlowOp(self.function.vjp(*names))
        type_, layout = result
        dy = from_pairs(_nest_pairs(type_, iter(cotangents)), layout)
        found = self._pullbacks[names](*map(_restore_layout, present.values()), dy)
        by_name = dict(zip(names, found if len(names) > 1 else [found], strict=True))
        pulled: list[Any] = []
        for x, value in present.items():
            parts = (
                iter(_iterate_leaves_in_order(lay_out(by_name[x]))) if x in by_name else iter(())
            )
            for leaf in _iterate_leaves_in_order(value):
                part = next(parts) if x in by_name else None
                if _is_tensor(leaf):
                    pulled.append(_cast_like(part, leaf) if _is_float(leaf) else None)
        return pulled

    def _infer_result(
        self, arguments: Mapping[str, Any], tensors: list[Any]
    ) -> tuple[Type, Layout, list[list[int | None]], Any]:
        """Infer the result's type and layout, and its tensors' shapes and float type, from the arguments' shapes.

        Where TensorFlow does not know a shape yet, a number that the function accepts together with the others stands for
        it.
        """
        import tensorflow as tf

        floats = [t.dtype for t in tensors if t.dtype.is_floating]
        dtype = max(floats, key=lambda d: d.size, default=tf.float32)
        if dtype.size < 4:
            dtype = tf.float32
        ranks = [t.shape.rank for t in tensors]
        if None in ranks:
            message = (
                f"`{self.function.__name__}` gets a tensor whose rank TensorFlow does not know"
            )
            raise TensorError(message, "say it by `tf.ensure_shape(x, [None, 3])`")
        lengths = [d for t in tensors for d in t.shape.as_list()]
        if known := None not in lengths:
            candidates = [ANY_LENGTH]
        else:
            candidates = [ANY_LENGTH, *sorted({d for d in lengths if d is not None})]
        for candidate in candidates:
            stand_ins = [_make_placeholder_array(t, candidate) for t in tensors]
            try:
                call = self.function.specialised(*_replace_all_tensors(arguments, stand_ins))
            except TensorError:
                if candidate == candidates[-1]:
                    raise
                continue
            break
        type_ = soa(call.instance.type)
        shapes: list[list[int | None]] = [
            [d.evaluate(call.sizes) if known else None for d in dimensions(leaf)]
            for _, leaf in leaves(type_)
        ]
        return type_, call.instance.layout, shapes, dtype


def _is_tensor(value: Any) -> bool:
    """Whether a value is a TensorFlow tensor or variable."""
    import tensorflow as tf

    return bool(tf.is_tensor(value))


def _is_float(tensor: Any) -> bool:
    """Whether a tensor has floats."""
    return bool(tensor.dtype.is_floating)


def _cast_like(cotangent: Any, tensor: Any) -> Any:
    """Cast a cotangent to the dtype of a tensor."""
    import tensorflow as tf

    return tf.cast(cotangent, tensor.dtype)


def _convert_argument(value: Any) -> Any:
    """Convert the variables in an argument, TensorFlow's and Keras', and lists of tensors to tensors."""
    import tensorflow as tf

    if isinstance(value, tuple):
        parts = [_convert_argument(part) for part in value]
        return Laid(parts, value.form) if isinstance(value, Laid) else tuple(parts)
    if isinstance(value, list) and not any(map(_is_tensor, value)):
        return value
    if isinstance(value, list) or tf.is_tensor(value) or hasattr(value, "__tf_tensor__"):
        return tf.convert_to_tensor(value)
    return value


def _iterate_leaves_in_order(value: Any) -> list[Any]:
    """Yield everything in an argument or result that is not a tuple, in order."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in _iterate_leaves_in_order(part)]
    return [value]


def _list_tensors(value: Any) -> list[Any]:
    """Return the tensors in an argument, in order."""
    return [leaf for leaf in _iterate_leaves_in_order(value) if _is_tensor(leaf)]


def _replace_tensors(value: Any, replacements: Iterator[Any]) -> Any:
    """Return an argument with its tensors replaced, in order."""
    if isinstance(value, tuple):
        parts = [_replace_tensors(part, replacements) for part in value]
        return Laid(parts, value.form) if isinstance(value, Laid) else tuple(parts)
    return next(replacements) if _is_tensor(value) else value


def _replace_all_tensors(arguments: Mapping[str, Any], arrays: Sequence[Any]) -> list[Any]:
    """Return the function's arguments, with arrays in place of the tensors."""
    given = iter(arrays)
    return [_restore_layout(_replace_tensors(value, given)) for value in arguments.values()]


def _restore_layout(value: Any) -> Any:
    """Restore the lists, dictionaries and dataclasses of an argument."""
    if isinstance(value, tuple):
        parts = tuple(map(_restore_layout, value))
        return value.form.rebuild_value(parts) if isinstance(value, Laid) else parts
    return value


def _nest_pairs(type_: Type, parts: Iterator[Any]) -> Any:
    """Nest values as the pairs of a type in struct-of-arrays form."""
    if isinstance(type_, Product):
        return _nest_pairs(type_.first, parts), _nest_pairs(type_.second, parts)
    return next(parts)


def _make_placeholder_array(tensor: Any, length: int) -> Any:
    """Make an array of a tensor's type and shape that takes no memory."""
    shape = [length if d is None else d for d in tensor.shape.as_list()]
    return np.broadcast_to(np.zeros((), tensor.dtype.as_numpy_dtype), shape)


__all__ = ["TensorFlowOp"]
