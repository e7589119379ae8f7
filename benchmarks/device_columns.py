"""The results of `device_run` in docs/performance-tables.md, in columns by device. Those of each device are kept in
benchmarks/device_results, so that another device adds its columns to them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from page_sections import replace_section

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "device_results"
PAGE = ROOT / "docs" / "performance-tables.md"
LAUNCHES = 10  # that JAX's gradient takes where a ratio is counted
Row = Mapping[str, Any]


def merge(folder: Path) -> None:
    """Keep the results of a run, each in the place of an earlier one of the same program, and write the page."""
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    name = next(row["name"] for row in rows if row["part"] == "device")
    file = KEPT / f"{'-'.join(name.lower().split())}.json"
    KEPT.mkdir(exist_ok=True)
    before = json.loads(file.read_text()) if file.exists() else []
    merged = {_key(row): row for row in before}
    for row in rows:
        if "ms" in row or _key(row) not in merged:
            merged[_key(row)] = row
    text = ",\n".join(json.dumps(row) for row in merged.values())
    file.write_text(f"[{text}]\n")
    write_page()


def _key(row: Row) -> tuple[str, str, int | None]:
    return row["part"], row["name"], row["size"]


def write_page() -> None:
    """Put the columns of all devices into the page."""
    devices = {file.stem: json.loads(file.read_text()) for file in sorted(KEPT.glob("*.json"))}
    replace_section(PAGE, "devices", _page(devices))


def _page(devices: Mapping[str, list[Row]]) -> str:
    parts = [_device(rows) for rows in devices.values()]
    parts.append(_table(devices))
    return "\n\n".join(parts)


def _device(rows: list[Row]) -> str:
    """What is known of a device, and the summary of its programs."""
    name = next(row["name"] for row in rows if row["part"] == "device")
    measured = [row for row in rows if "ratios" in row]
    profile: Row = next((row for row in rows if row["part"] == "profile"), {})
    launch = 1e3 * profile.get("launch", 1e-4)
    long = [row for row in measured if row["ms"]["JAX"] >= LAUNCHES * launch]
    tests = [row for row in rows if row["part"] == "tests"]
    lines = [f"**{name}**, JAX {profile.get('jax', '?')}."]
    if profile:
        lines.append(
            f"A launch takes {1e6 * profile['launch']:.0f} µs, one more kernel {1e6 * profile['kernel']:.1f} µs, an iteration "
            f"of a loop {1e6 * profile['iteration']:.0f} µs; memory moves {profile['bytes_per_second'] / 1e12:.1f} TB/s."
        )
    for row in tests:
        failed = ", ".join(row["failed"]) or "none"
        lines.append(f"Of {row['passed'] + len(row['failed'])} tests run there failed: {failed}.")
    for title, some in (
        ("All programs", measured),
        (f"Those of {LAUNCHES} launches and more", long),
    ):
        if some:
            by_model, by_best = [_first(row)[1] for row in some], [_best(row)[1] for row in some]
            before = [
                row["ratios"]["as on a CPU"] for row in some if "as on a CPU" in row["ratios"]
            ]
            lines.append(
                f"{title} ({len(some)}): JAX's time / ours has the geometric mean {_mean(by_model):.2f} by the model and "
                f"{_mean(by_best):.2f} by the best candidate; {sum(x < 0.95 for x in by_model)} and "
                f"{sum(x < 0.95 for x in by_best)} are below 0.95."
            )
            if before:
                lines[-1] += (
                    f" As on a CPU it is {_mean(before):.2f}, and {sum(x < 0.95 for x in before)}."
                )
    left = [f"{row['name']} ({row['why']})" for row in rows if "why" in row]
    if left:
        lines.append(f"Not measured: {'; '.join(left)}.")
    return "\n".join(lines)


def _first(row: Row) -> tuple[str, float]:
    """The kernel that is chosen without measuring, and JAX's time over its own."""
    return next((name, ratio) for name, ratio in row["ratios"].items() if "(first)" in name)


def _best(row: Row) -> tuple[str, float]:
    """The fastest of those that a call could choose."""
    able = (name for name, known in row["kernels"].items() if "points" in known)
    return max(((x, row["ratios"][x]) for x in able if x in row["ratios"]), key=lambda x: x[1])


def _mean(ratios: Iterable[float]) -> float:
    found = [*ratios]
    return math.exp(sum(map(math.log, found)) / len(found))


def _table(devices: Mapping[str, list[Row]]) -> str:
    columns = (
        "gradient ms",
        "JAX's ms",
        "JAX's / ours",
        "best candidate",
        "as on a CPU",
        "predicted / measured",
        "MiB",
        "JAX's MiB",
    )
    head = ["program", "entries", *(f"{column}, {name}" for name in devices for column in columns)]
    keys = dict.fromkeys(_key(row) for rows in devices.values() for row in rows if "ratios" in row)
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for key in keys:
        cells = [key[1], ""]
        for rows in devices.values():
            row = next((row for row in rows if _key(row) == key and "ratios" in row), None)
            cells += _cells(row) if row else [""] * len(columns)
            if row:
                cells[1] = (
                    f"{key[2] or row.get('entries', ''):,}" if key[2] or row.get("entries") else ""
                )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(row: Row) -> list[str]:
    (first, ratio), (best, most) = _first(row), _best(row)
    known, theirs = row["kernels"][first], row["kernels"].get("JAX", {})
    other = row["ratios"].get("as on a CPU")
    predicted = known.get("predicted")
    return [
        f"{row['ms'][first]:.3g}",
        f"{row['ms']['JAX']:.3g}",
        f"**{ratio:.2f}**",
        f"{most:.2f} {best}".removesuffix(" (first)"),
        "" if other is None else f"{other:.2f}",
        "" if predicted is None else f"{predicted / row['ms'][first]:.2f}",
        *(f"{x['allocated'] / 2**20:.3g}" if "allocated" in x else "" for x in (known, theirs)),
    ]
