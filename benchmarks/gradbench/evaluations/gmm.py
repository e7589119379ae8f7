"""The log-posterior of a mixture of Gaussians with a Wishart prior. An inverse covariance is QᵀQ, Q lower triangular, with the
exponentials of q on its diagonal and l below it, column by column.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, multigammaln

from evaluations import Function, as_lists, on_device
from jupyter_hvd.tensor import tensor


@tensor
def log_posterior(alpha, mu, q, l, x, below, gamma, m, constant):  # noqa: E741
    n, d = x.shape
    k = len(alpha)
    factor = [
        [
            [np.exp(q[c, a]) if a == b else (l[c, below[a, b]] if b < a else 0.0) for b in range(d)]
            for a in range(d)
        ]
        for c in range(k)
    ]
    centre = [
        [sum(factor[c][a][b] * mu[c, b] for b in range(d)) for a in range(d)] for c in range(k)
    ]
    turned = [
        [
            [sum(factor[c][a][b] * x[i, b] for b in range(d)) - centre[c][a] for a in range(d)]
            for c in range(k)
        ]
        for i in range(n)
    ]
    total = np.sum(q, axis=1)
    inner = alpha + total - 0.5 * np.sum(np.array(turned) ** 2, axis=2)
    squares = np.sum(np.exp(q) ** 2, axis=1) + np.sum(l**2, axis=1)
    prior = np.sum(0.5 * gamma**2 * squares - m * total)
    return np.sum(logsumexp(inner, axis=1)) - n * logsumexp(alpha) - prior + constant


def _prepare(given):
    d, k, n, m = given["d"], given["k"], given["n"], given["m"]
    gamma, freedom = given["gamma"], d + m + 1
    below = np.zeros((d, d), np.int32)
    columns, rows = np.triu_indices(d, 1)
    below[rows, columns] = np.arange(len(rows))
    wishart = freedom * d * math.log(gamma / math.sqrt(2)) - multigammaln(0.5 * freedom, d)
    constant = k * wishart - n * d * 0.5 * math.log(2 * math.pi)
    arrays = on_device(*(given[name] for name in ("alpha", "mu", "q", "l", "x")))
    return *arrays, below, gamma, float(m), constant


def _by_name(gradients):
    return dict(zip(("alpha", "mu", "q", "l"), as_lists(gradients), strict=True))


FUNCTIONS = {
    "objective": Function(_prepare, log_posterior),
    "jacobian": Function(_prepare, log_posterior.grad("alpha", "mu", "q", "l"), _by_name),
}
