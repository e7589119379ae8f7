"""Counts a kernel's work as XLA fuses it, and the least time that a device needs for it.

What is computed entry by entry is fused into the sum or product that reads it and is not stored. Sums, products of matrices, what
is added up at indices from data, running sums and loops are kernels of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import prod
from typing import Any, Protocol

import numpy as np

from ..derivative.elementary import CHEAP
from ..language.terms import in_ranges
from ..language.units import in_seconds
from .device import Device
from .ir import Accumulate, Apply, Contract, Entrywise, Fill, Load, Reduce, Step, Take, Whole
from .storage import Storage
from .strategy import SCAN_KERNELS, Multiplied, Running, choose_kernel, split_scalars
from .tiling import Blocks


@dataclass(frozen=True)
class Work:
    """How much of each kind of work a kernel does.

    Attributes:
        stored: entries written to memory, and read from it.
        operations: additions, multiplications and comparisons.
        calls: of slow elementary functions.
        products: operations in products of matrices.
        gathered: entries read at indices from data.
        scattered: entries added at indices from data.
        running: entries of running sums.
        kernels: that run sequentially.
        iterations: of loops.
    """

    stored: float = 0
    operations: float = 0
    calls: float = 0
    products: float = 0
    gathered: float = 0
    scattered: float = 0
    running: float = 0
    kernels: float = 0
    iterations: float = 0

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f) + getattr(other, f) for f in _COUNTS))

    def repeat(self, count: float) -> Work:
        """Return the work of `count` sequential repetitions."""
        return Work(*(getattr(self, f) * count for f in _COUNTS))

    def least_seconds(self, device: Device, dtype: str, width: int) -> float:
        """Return the least time of a device for numbers of `width` bytes; memory and arithmetic overlap."""
        parts = self.seconds_by_kind(device, dtype, width)
        hidden = min(parts["memory"], parts["arithmetic"])
        return sum(parts.values()) - hidden

    def seconds_by_kind(self, device: Device, dtype: str, width: int) -> Mapping[str, float]:
        """Return the least time of a device for each kind of work, for numbers of `width` bytes."""
        computed = self.operations / device.flop_rate(dtype) + self.calls / device.calls_per_second
        multiplied = self.products / device.products.get(dtype, device.products["float32"])
        return {
            "launch": device.launch,
            "memory": self.stored * width / device.bytes_per_second,
            "arithmetic": computed + multiplied,
            "entries at indices from data": self.gathered * device.gather
            + self.scattered * device.scatter,
            "running sums": self.running * device.running_sum,
            "kernels": self.kernels * device.kernel,
            "iterations": self.iterations * device.iteration / device.unroll,
        }


KERNELS = 4  # of an array-level function
_COUNTS = tuple(f.name for f in fields(Work))


class Planned(Protocol):
    """What counts of a plan (`plan.Plan`)."""

    def __hash__(self) -> int: ...
    @property
    def order(self) -> tuple[Step | Blocks, ...]: ...
    @property
    def storages(self) -> Mapping[str, Storage]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def device(self) -> Device: ...
    @property
    def windows(self) -> Device: ...


@cache
def work_of(plan: Planned) -> Work:
    """Return the work of a plan."""
    total = Work()
    for part in plan.order:
        steps = part.steps if isinstance(part, Blocks) else (part,)
        times = part.count if isinstance(part, Blocks) else 1
        total += sum((_step_work(s, plan) for s in steps), Work()).repeat(times)
        total += Work(iterations=times if times > 1 else 0)
    return total


def predicted_seconds(plan: Planned) -> float:
    """Return the least time of a call on the plan's device."""
    return work_of(plan).least_seconds(plan.device, plan.dtype.name, plan.dtype.itemsize)


def describe_time(plan: Planned) -> str:
    """Return that time in words, with its parts above a hundredth."""
    parts = {**work_of(plan).seconds_by_kind(plan.device, plan.dtype.name, plan.dtype.itemsize)}
    del parts[min("memory", "arithmetic", key=parts.__getitem__)]  # it is done meanwhile
    total = predicted_seconds(plan)
    large = sorted((x for x in parts.items() if x[1] >= total / 100), key=lambda x: -x[1])
    listed = ", ".join(f"{name} {in_seconds(seconds)}" for name, seconds in large)
    return f"{in_seconds(total)} at least by the profile of {plan.device.name}: {listed}"


def _step_work(step: Step, plan: Planned) -> Work:
    """Return the work of a step."""
    action = step.action
    if isinstance(action, Load):
        return Work(stored=prod(plan.storages[step.name].extents))
    if isinstance(action, Fill | Take):
        return Work()
    if isinstance(action, Entrywise):
        return _entrywise_work(action, plan)
    if isinstance(action, Whole):
        return _whole_work(action)
    loops = (
        work_of(loop.body).repeat(loop.count) + Work(iterations=loop.count) for loop in action.loops
    )
    return sum(loops, Work())


def _whole_work(action: Whole) -> Work:
    """Return the work of an array-level function, by its lemma; its operations are mostly products of matrices."""
    own, dims = action.definition, action.dims
    times = prod(n.constant for n in own.batch_dimensions(dims))
    stored = sum(prod(n.constant for n in x) for x in (in_ranges(action.out), *dims))
    if own.counterpart_work is not None:
        operations = int(times * own.counterpart_work(*own.own_dimensions(dims)))
        return Work(stored=stored, operations=operations, kernels=KERNELS)
    lemma = own.cost(*own.own_dimensions(dims))
    products = sum(work.times * prod(n.constant for _, n in work.ranges) for work in lemma)
    return Work(stored=stored, products=times * products, kernels=KERNELS)


def _entrywise_work(action: Entrywise, plan: Planned) -> Work:
    """Return the work of an entrywise step."""
    points = prod(action.extents.values())
    looked = {x.name for x in action.indirections}
    gathered = sum(points for r in action.accesses if any(a.names & looked for a in r.indices))
    work = Work(gathered=gathered)
    match action:
        case Apply(_, function, arguments):
            calls = 0 if function.name in CHEAP else points
            added = sum(len(x) - 1 for x in arguments)
            return work + Work(operations=points * (1 + added), calls=calls)
        case Accumulate(_, addends):
            return work + Work(operations=points * len(addends))
        case Reduce():
            return work + Work(operations=points, stored=2 * prod(action.shape), kernels=1)
        case Contract():
            return work + _contraction_work(action, plan)
    return work


def _contraction_work(action: Contract, plan: Planned) -> Work:
    """Return the work of a contraction, by the kernel that runs it."""
    points = prod(action.extents.values())
    made = prod(action.shape)
    sent = Work(scattered=prod(n.constant for _, n in action.out)) if action.scatter_to else Work()
    if not action.sums:
        kernel = Work(stored=2 * made, kernels=1) if action.scatter_to else Work()
        return sent + kernel + Work(operations=points * max(1, len(action.reads) - 1))
    action, _ = split_scalars(action)
    kernel = sent + Work(stored=2 * made, kernels=1)
    match choose_kernel(action, plan.windows):
        case Running(axis, _, _, kept, _):
            summed = prod(action.extents[i] for i in (axis, *kept))
            return kernel + Work(
                running=summed, kernels=SCAN_KERNELS - 1, operations=points // max(1, made)
            )
        case Multiplied(operands) as strategy if "dot_general" in str(strategy):
            read = sum(prod(action.extents[i] for i in axes) for axes in operands)
            return kernel + Work(stored=read, products=2 * points)
    return kernel + Work(operations=points * len(action.reads))
