"""The reprojection errors of bundle adjustment, the errors of their weights, and their sparse Jacobian.

GradBench's blocks are dense: of a row, 11 entries by its camera, 3 by its point and 1 by its weight. One of the camera's is zero
by structure, which `f.jacobian` does not compute, and which is laid out here as a zero.
"""

from __future__ import annotations

import functools

import numpy as np

from evaluations import Function, on_device
from jupyter_hvd.tensor import tensor


def rotated(rotation, x):
    """Rodrigues' rotation of a point by an axis as long as the angle."""
    r0, r1, r2 = rotation
    angle = np.sqrt(r0**2 + r1**2 + r2**2)
    a0, a1, a2 = r0 / angle, r1 / angle, r2 / angle
    cosine, sine = np.cos(angle), np.sin(angle)
    along = (a0 * x[0] + a1 * x[1] + a2 * x[2]) * (1 - cosine)
    return (
        x[0] * cosine + (a1 * x[2] - a2 * x[1]) * sine + a0 * along,
        x[1] * cosine + (a2 * x[0] - a0 * x[2]) * sine + a1 * along,
        x[2] * cosine + (a0 * x[1] - a1 * x[0]) * sine + a2 * along,
    )


@tensor
def reprojection_errors(cameras, points, weights, camera, point, seen):
    errors = []
    for e in range(len(camera)):
        c, p = cameras[camera[e]], points[point[e]]
        u, v, w = rotated((c[0], c[1], c[2]), (p[0] - c[3], p[1] - c[4], p[2] - c[5]))
        s = (u / w) ** 2 + (v / w) ** 2
        scale = c[6] * (1 + c[9] * s + c[10] * s * s)
        errors.append(
            [
                weights[e] * (scale * u / w + c[7] - seen[e, 0]),
                weights[e] * (scale * v / w + c[8] - seen[e, 1]),
            ]
        )
    return np.array(errors)


@tensor
def weight_errors(weights):
    return 1 - weights**2


def _prepare(given):
    n, m, p = given["n"], given["m"], given["p"]
    copies = (
        (given["cam"], (n, 1)),
        (given["x"], (m, 1)),
        (given["w"], p),
        (given["feat"], (p, 1)),
    )
    cameras, points, weights, seen = on_device(*(np.tile(a, k) for a, k in copies))
    e = np.arange(p, dtype=np.int32)
    return cameras, points, weights, e % n, e % m, seen


def objective(*given):
    return reprojection_errors(*given), weight_errors(given[2])


def _repeated(output):
    errors, weights = (np.asarray(a) for a in output)
    return {
        "reproj_error": {"elements": errors[0].tolist(), "repeated": len(errors)},
        "w_err": {"element": float(weights[0]), "repeated": len(weights)},
    }


BY_CAMERA, BY_POINT, BY_WEIGHT = (
    reprojection_errors.jacobian(x) for x in ("cameras", "points", "weights")
)
BLOCK = 11, 3, 1  # entries of a row by its camera, its point and its weight
slope = weight_errors.jacobian("weights")


@functools.cache
def layout(by_camera, by_point, by_weight, of_weights):
    """`indptr` and `indices` of the Jacobian by all parameters, and the positions of the entries of the four patterns in it."""
    starts, width = np.cumsum((0, *BLOCK))[:-1], sum(BLOCK)
    height, count = by_camera.shape[0], of_weights.shape[0]
    columns = np.zeros(height * width + count, np.int32)
    positions, offset = [], 0
    for pattern, size, start in zip((by_camera, by_point, by_weight), BLOCK, starts, strict=True):
        block = offset + pattern.columns // size * size  # where the block of each entry begins
        at = width * pattern.rows + start
        for k in range(size):
            columns[at + k] = block + k
        positions.append(at + pattern.columns % size)
        offset += pattern.shape[1]
    positions.append(height * width + of_weights.rows)
    columns[height * width :] = offset - count + of_weights.columns
    ends = np.concatenate([width * np.arange(height), height * width + np.arange(count + 1)])
    return ends, columns, np.concatenate(positions)


def jacobian(*given):
    made = BY_CAMERA, BY_POINT, BY_WEIGHT
    patterns = [part.pattern(*given) for part in made]
    rows, columns, positions = layout(*patterns, slope.pattern(given[2]))
    values = np.zeros(len(columns))
    values[positions] = np.concatenate(
        [*(part.values(*given) for part in made), slope.values(given[2])]
    )
    return rows, columns, values


def _shortened(output):
    """The first 30 and the last of each array, as GradBench compares them."""
    rows, columns, values = ([*a[:30].tolist(), a[-1].item()] for a in output)
    return {"rows": rows, "cols": columns, "vals": values}


FUNCTIONS = {
    "objective": Function(_prepare, objective, _repeated),
    "jacobian": Function(_prepare, jacobian, _shortened),
}
