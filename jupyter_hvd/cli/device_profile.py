"""`jupyter hvd device-profile`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError
from .codes import OK
from .show import make_consoles

if TYPE_CHECKING:
    from ..tensor.jax.device_measurement import Figure


def add_parser(commands: Any) -> None:
    """Add the command `device-profile`."""
    parser = commands.add_parser(
        "device-profile",
        help="measure this device, so that tensor functions are planned for it",
        description="Measure what decides which kernel is the fastest on JAX's first device, in about a quarter of a minute, and"
        " keep it beside your settings. Do it while nothing else runs. Processes that begin after it plan by these figures.",
    )
    parser.add_argument("--json", action="store_true", help="print the profile and keep nothing")
    parser.set_defaults(command=run_device_profile)


def run_device_profile(arguments: argparse.Namespace) -> int:
    """Run `device-profile`: measure this device, and store or print the profile; return the exit code."""
    try:
        import jax
    except ImportError:
        raise UnusableInputError(
            "a profile is of a device that JAX uses: pip install jupyter_hvd[jax]"
        ) from None
    from ..tensor.jax.device_measurement import measure_device
    from ..tensor.lowering.device import keep_profile

    out, progress = make_consoles(False)
    progress.print(f"measuring {jax.devices()[0].device_kind} …")
    device = measure_device(lambda figure: progress.print(describe_figure(figure)))
    if arguments.json:
        print(device.as_json(), end="")
    else:
        out.print(
            f"kept in {keep_profile(device)}; delete that file to plan as before", soft_wrap=True
        )
    return OK


def describe_figure(figure: Figure) -> str:
    """Return a line about one measured figure."""
    known = f"{figure.value:.3g}" if figure.value is not None else f"as before: {figure.why}"
    return f"{figure.done:3} of {figure.count}  {figure.name} {known}"
