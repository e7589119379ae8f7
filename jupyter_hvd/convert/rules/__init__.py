"""All rules, one per file, in the order in which they are applied and listed."""

from __future__ import annotations

from .already_horovod import AlreadyHorovod
from .batch_size import ScaleBatch
from .broadcast_callback import FitCallbacks
from .compiled_optimizer import Compile
from .context import Rule
from .device_environment import DeviceEnvironment
from .estimators import Estimators
from .fit_progress import Verbose
from .global_batch import ShareProgram
from .gradient_tape import Tape
from .import_horovod import ImportHorovod
from .joined_batches import JoinBatches
from .learning_rate import ScaleRate
from .other_backend import OtherBackend
from .other_distribution import OtherDistribution
from .print_on_rank_zero import Print
from .step_counts import ScaleSteps
from .strategy import Strategy
from .tensorflow1 import TF1

RULE_CLASSES: tuple[type[Rule], ...] = (
    ImportHorovod,
    DeviceEnvironment,
    Strategy,
    Compile,
    Tape,
    FitCallbacks,
    Verbose,
    Print,
    ShareProgram,
    ScaleBatch,
    JoinBatches,
    ScaleRate,
    ScaleSteps,
    AlreadyHorovod,
    OtherDistribution,
    TF1,
    Estimators,
    OtherBackend,
)
RULES: tuple[Rule, ...] = tuple(kind() for kind in RULE_CLASSES)
BY_CODE = {rule.code: rule for rule in RULES}
