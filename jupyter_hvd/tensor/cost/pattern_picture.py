"""A picture of a sparse matrix, as SVG."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

CELLS = 60  # squares on a side at most
SIDE = 240  # pixels
SHADES = 4  # by how full a part of the matrix is


def draw_pattern(rows: Any, columns: Any, shape: tuple[int, int], words: str) -> str:
    """Squares at the entries, whose rows and columns are given, with `words` below. A matrix of more than `CELLS` rows or columns
    is shown by parts, the darker the more of a part's positions are entries.
    """
    height, width = (max(1, n) for n in shape)
    per_cell = -(-max(height, width) // CELLS)
    cells = -(-height // per_cell), -(-width // per_cell)
    counts = np.zeros(cells, np.int64)
    np.add.at(counts, (np.asarray(rows) // per_cell, np.asarray(columns) // per_cell), 1)
    full = np.outer(_cell_lengths(height, per_cell), _cell_lengths(width, per_cell))
    shades = np.ceil(SHADES * counts / full).astype(int)
    size = max(2, SIDE // max(cells))
    paths = "".join(
        f'<path opacity="{(shade + 1) / (SHADES + 1)}" d="{_squares_path(shades == shade, size)}"/>'
        for shade in range(1, SHADES + 1)
        if np.any(shades == shade)
    )
    across, down = size * cells[1] + 2, size * cells[0] + 2
    frame = f'<rect x="0.5" y="0.5" width="{across - 1}" height="{down - 1}" fill="none" stroke="currentColor" opacity="0.4"/>'
    drawing = f'<g fill="currentColor" transform="translate(1 1)">{paths}</g>'
    label = escape(words)
    return (
        f'<svg role="img" aria-label="entries {label}" width="{across}" height="{down}">{frame}{drawing}</svg>'
        f"<div>{label}</div>"
    )


def _cell_lengths(extent: int, per_cell: int) -> Any:
    """How many rows or columns each cell stands for."""
    return np.diff(np.append(np.arange(0, extent, per_cell), extent))


def _squares_path(chosen: Any, size: int) -> str:
    """A path over the chosen cells, those beside one another as one rectangle."""
    parts = []
    for row, line in enumerate(chosen):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
        for start, end in edges.reshape(-1, 2):
            parts.append(
                f"M{start * size} {row * size}h{(end - start) * size}v{size}h-{(end - start) * size}z"
            )
    return "".join(parts)
