"""What a kernel does, counted as XLA fuses it, and the time that a device takes for it at least.

What is computed entry by entry is fused into the sum or product that reads it and is not stored. Sums, products of matrices, what
is added up at indices from data, running sums and loops are kernels of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from math import prod
from typing import TYPE_CHECKING

from ..derivative.elementary import CHEAP
from ..language.affine import Affine
from .device import Device
from .ir import Accumulate, Apply, Contract, Entrywise, Fill, Load, Step, Take, Whole
from .strategy import SCAN_KERNELS, Multiplied, Running, choose, without_numbers
from .tiling import Blocks

if TYPE_CHECKING:
    from .plan import Plan


@dataclass(frozen=True)
class Work:
    """Counts of what a kernel does.

    Attributes:
        stored: entries that are written to memory, and read from it.
        operations: additions, multiplications and comparisons.
        calls: of elementary functions that take long.
        products: operations of products of matrices.
        gathered: entries read at indices from data.
        scattered: entries added up at indices from data.
        running: entries of running sums.
        kernels: that run one after the other.
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

    def times(self, count: float) -> Work:
        """So often one after the other."""
        return Work(*(getattr(self, f) * count for f in _COUNTS))

    def seconds(self, device: Device, dtype: str, width: int) -> float:
        """What a device takes at least for numbers of `width` bytes: memory and arithmetic at the same time."""
        moved = self.stored * width / device.bytes_per_second
        computed = self.operations / device.flop_rate(dtype) + self.calls / device.calls_per_second
        multiplied = self.products / device.products.get(dtype, device.products["float32"])
        at_indices = self.gathered * device.gather + self.scattered * device.scatter
        waiting = self.kernels * device.kernel + self.iterations * device.iteration / device.unroll
        running = self.running * device.running_sum
        return device.launch + max(moved, computed + multiplied) + at_indices + running + waiting


KERNELS = 4  # of a function of whole arrays
_COUNTS = tuple(f.name for f in fields(Work))


@cache
def work_of(plan: Plan) -> Work:
    """What a plan does."""
    total = Work()
    for part in plan.order:
        steps = part.steps if isinstance(part, Blocks) else (part,)
        times = part.count if isinstance(part, Blocks) else 1
        total += sum((_step_work(s, plan) for s in steps), Work()).times(times)
        total += Work(iterations=times if times > 1 else 0)
    return total


def predicted_seconds(plan: Plan) -> float:
    """The time of a call as the plan's device takes it at least."""
    work = work_of(plan)
    return work.seconds(plan.device, plan.dtype.name, plan.dtype.itemsize)


def _step_work(step: Step, plan: Plan) -> Work:
    action = step.action
    if isinstance(action, Load):
        return Work(stored=prod(plan.storages[step.name].extents))
    if isinstance(action, Fill | Take):
        return Work()
    if isinstance(action, Entrywise):
        return _entrywise_work(action, plan)
    if isinstance(action, Whole):
        return _whole_work(step.name, action, plan)
    loops = (
        work_of(loop.body).times(loop.count) + Work(iterations=loop.count) for loop in action.loops
    )
    return sum(loops, Work())


def _whole_work(name: str, action: Whole, plan: Plan) -> Work:
    """Of a function of whole arrays, by its lemma; its operations are mostly products of matrices."""
    shapes = plan.shapes()
    operands = [tuple(map(Affine.of, shapes[x])) for x in action.operands]
    times = prod(n.constant for n in action.definition.batch(operands))
    lemma = action.definition.cost(*action.definition.own(operands))
    products = sum(work.times * prod(n.constant for _, n in work.ranges) for work in lemma)
    stored = sum(prod(shapes[x]) for x in (name, *action.operands))
    return Work(stored=stored, products=times * products, kernels=KERNELS)


def _entrywise_work(action: Entrywise, plan: Plan) -> Work:
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
        case Contract():
            return work + _contraction_work(action, plan)
    return work


def _contraction_work(action: Contract, plan: Plan) -> Work:
    points = prod(action.extents.values())
    made = prod(action.shape)
    sent = Work(scattered=prod(n.constant for _, n in action.out)) if action.scatter_to else Work()
    if not action.sums:
        kernel = Work(stored=2 * made, kernels=1) if action.scatter_to else Work()
        return sent + kernel + Work(operations=points * max(1, len(action.reads) - 1))
    action, _ = without_numbers(action)
    kernel = sent + Work(stored=2 * made, kernels=1)
    match choose(action, plan.windows):
        case Running(axis, _, _, kept, _):
            summed = prod(action.extents[i] for i in (axis, *kept))
            return kernel + Work(
                running=summed, kernels=SCAN_KERNELS - 1, operations=points // max(1, made)
            )
        case Multiplied(operands) as strategy if "dot_general" in str(strategy):
            read = sum(prod(action.extents[i] for i in axes) for axes in operands)
            return kernel + Work(stored=read, products=2 * points)
    return kernel + Work(operations=points * len(action.reads))
