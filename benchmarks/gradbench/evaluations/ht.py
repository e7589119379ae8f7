"""Hand tracking: points on the surface of a hand that bones move, and their distances to measured points."""

from __future__ import annotations

import numpy as np

from evaluations import Function, as_lists, on_device
from jupyter_hvd.tensor import tensor

FINGERS = 5


def axis_rotation(r):
    """Rotation by an axis as long as the angle; none by less than 0.0001."""
    angle = np.sqrt(r[0] ** 2 + r[1] ** 2 + r[2] ** 2)
    x, y, z = r[0] / angle, r[1] / angle, r[2] / angle
    s, c = np.sin(angle), np.cos(angle)
    turned = np.array(
        [
            [x * x + (1 - x * x) * c, x * y * (1 - c) - z * s, x * z * (1 - c) + y * s],
            [x * y * (1 - c) + z * s, y * y + (1 - y * y) * c, y * z * (1 - c) - x * s],
            [x * z * (1 - c) - y * s, z * y * (1 - c) + x * s, z * z + (1 - z * z) * c],
        ]
    )
    return np.where(angle < 0.0001, np.eye(3), turned)


def bone_rotation(bend, spread):
    """A joint's rotation, homogeneous: about x by `bend`, then about z by `spread`."""
    cx, sx, cz, sz = np.cos(bend), np.sin(bend), np.cos(spread), np.sin(spread)
    return np.array(
        [
            [cz, -cx * sz, sx * sz, 0.0],
            [sz, cx * cz, -sx * cz, 0.0],
            [0.0, sx, cx, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def joint_angles(theta, bone):
    """What bends and spreads a bone: of each finger the first of four joints does both, two more bend, the last does neither."""
    finger, joint = divmod(bone - 2, 4)
    if bone < 2 or finger >= FINGERS or joint == 3:
        return 0.0, 0.0
    first = 6 + 4 * finger
    return (theta[first], theta[first + 1]) if joint == 0 else (theta[first + 1 + joint], 0.0)


def vertices(theta, relatives, inverses, positions, weights, parents):
    """Where the vertices of the hand are, 3 by their number."""
    absolute = []
    placed = np.zeros((3, positions.shape[1]))
    for bone in range(len(parents)):
        bend, spread = joint_angles(theta, bone)
        relative = relatives[bone] @ bone_rotation(bend, spread)
        absolute.append(relative if parents[bone] < 0 else absolute[parents[bone]] @ relative)
        moved = (absolute[bone] @ inverses[bone])[:3] @ positions
        placed = placed + moved * weights[bone]
    return axis_rotation(theta[:3]) @ placed + theta[3:6, None]


@tensor
def simple_errors(theta, relatives, inverses, positions, weights, points, vertex, parents):
    placed = vertices(theta, relatives, inverses, positions, weights, parents)
    return points - placed[:, vertex].T


@tensor
def surface_errors(theta, us, relatives, inverses, positions, weights, points, corners, parents):
    placed = vertices(theta, relatives, inverses, positions, weights, parents)
    a, b, c = placed[:, corners[0]].T, placed[:, corners[1]].T, placed[:, corners[2]].T
    u, v = us[:, 0][:, None], us[:, 1][:, None]
    return points - (u * a + v * b + (1 - u - v) * c)


def _prepare(given):
    data, model = given["data"], given["data"]["model"]
    theta, relatives, inverses, points = on_device(
        given["theta"], model["base_relatives"], model["inverse_base_absolutes"], data["points"]
    )
    positions, weights = on_device(
        np.transpose(model["base_positions"]), np.transpose(model["weights"])
    )
    vertex = np.asarray(data["correspondences"], np.int32)
    hand = relatives, inverses, positions, weights, points
    parents = tuple(model["parents"])
    if not len(given["us"]):
        return theta, None, *hand, vertex, parents
    corners = np.asarray(model["triangles"], np.int32)[vertex].T.copy()
    return theta, *on_device(given["us"]), *hand, tuple(corners), parents


def objective(theta, us, *hand):
    return simple_errors(theta, *hand) if us is None else surface_errors(theta, us, *hand)


SIMPLE = simple_errors.jacobian("theta")
BY_THETA, BY_US = surface_errors.jacobian("theta"), surface_errors.jacobian("us")


def jacobian(theta, us, *hand):
    """By `us` two entries a row, then by `theta`; of the transpose, as the evaluation wants rows of results."""
    if us is None:
        return SIMPLE(theta, *hand).toarray()
    by_theta = BY_THETA(theta, us, *hand).toarray()
    by_us = BY_US.values(theta, us, *hand).reshape(-1, 2)
    return np.concatenate([by_us, by_theta], axis=1)


def _flat(errors):
    return as_lists(errors.reshape(-1))


FUNCTIONS = {
    "objective": Function(_prepare, objective, _flat),
    "jacobian": Function(_prepare, jacobian),
}
