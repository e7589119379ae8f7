"""More functions in the manner of public sources, written before any of them was tried: 35 of these 40 were taken as they
stand, the other five are since there are `diagflat`, `corrcoef`, `accumulate` and `histogram`.
"""

from __future__ import annotations

import numpy as np
from cases import Cases, entering

R = np.random.default_rng(11)
CASES: Cases = []
case = entering(CASES)


def draw(*shape):
    return R.uniform(0.3, 1.3, shape)


# 100 NumPy exercises
@case(draw(7), 0.7)
def nearest_value(Z, z):
    return Z[np.abs(Z - z).argmin()]


@case(draw(10, 2))
def distances_of_points(P):
    X, Y = P[:, :1], P[:, 1:]
    D = np.sqrt((X - X.T) ** 2 + (Y - Y.T) ** 2 + 1e-9)
    return np.sum(np.tril(D, -1))


@case(draw(6, 3))
def rows_without_their_mean(X):
    Y = X - X.mean(axis=1, keepdims=True)
    return np.sum(Y[Y[:, 1].argsort()] ** 2 * np.arange(6)[:, None])


@case(draw(12))
def moving_average(a):
    n = 3
    ret = np.cumsum(a)
    ret[n:] = ret[n:] - ret[:-n]
    return np.sum((ret[n - 1 :] / n) ** 2)


@case(draw(9), draw(9))
def path_of_even_steps(x, y):
    dr = (np.diff(x) ** 2 + np.diff(y) ** 2) ** 0.5
    r = np.zeros_like(x)
    r[1:] = np.cumsum(dr)
    r_int = np.linspace(0, 5.0, 4) * r[-1] / 5.0
    x_int = np.interp(r_int, r, x)
    return np.sum(x_int**2)


@case(draw(8))
def without_the_largest_value(Z):
    W = Z.copy()
    W[W.argmax()] = 0
    return np.sum(W * Z)


@case(draw(10), 3)
def n_largest(Z, n):
    return np.sum(Z[np.argsort(Z)[-n:]] ** 2)


# machine learning from scratch
@case(draw(8, 2), draw(8), draw(3, 2))
def nearest_neighbours(X, y, Q):
    total = 0.0
    for q in Q:
        d = np.linalg.norm(X - q, axis=1)
        idx = np.argsort(d)[:3]
        total += y[idx].mean()
    return total


@case(draw(10, 2), draw(3, 2))
def k_means(X, centers):
    for _ in range(4):
        d = ((X[:, None] - centers[None]) ** 2).sum(-1)
        labels = d.argmin(axis=1)
        centers = np.array(
            [X[labels == k].sum(axis=0) / np.maximum((labels == k).sum(), 1) for k in range(3)]
        )
    return np.sum(centers**2)


@case(draw(8, 3), np.array([0, 1, 1, 0, 1, 0, 0, 1]))
def naive_bayes(X, y):
    score = 0.0
    for c in range(2):
        Xc = X[y == c]
        mean, var = Xc.mean(axis=0), Xc.var(axis=0)
        score += np.sum(-0.5 * np.log(2 * np.pi * var) - (X[0] - mean) ** 2 / (2 * var))
    return score


@case(draw(6, 3), draw(3), 0.1)
def perceptron(X, w, eta):
    for xi in X:
        target = 1.0 if xi[0] > 0.8 else -1.0
        output = 1.0 if xi @ w > 1.0 else -1.0
        w = w + eta * (target - output) * xi
    return np.sum(w**2)


@case(draw(9), draw(9))
def decision_stump(x, y):
    order = np.argsort(x)
    ys = y[order]
    left = np.cumsum(ys)[:-1] / np.arange(1, len(y))
    return np.min((ys[0] - left) ** 2 + left)


# d2l.ai, cs231n
@case(draw(6, 6), draw(2, 2))
def corr2d(X, K):
    h, w = K.shape
    Y = np.zeros((X.shape[0] - h + 1, X.shape[1] - w + 1))
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = (X[i : i + h, j : j + w] * K).sum()
    return np.sum(Y**2)


@case(draw(5, 5))
def pool2d(X):
    p = 2
    Y = np.zeros((X.shape[0] - p + 1, X.shape[1] - p + 1))
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            Y[i, j] = X[i : i + p, j : j + p].max()
    return np.sum(Y**2)


@case(draw(4, 5), np.array([0, 2, 1, 4]))
def cross_entropy(y_hat, y):
    return -np.log(y_hat[np.arange(len(y_hat)), y]).mean()


@case(draw(4, 5), np.array([0, 2, 1, 4]))
def hinge_multi(scores, y):
    n = len(scores)
    correct = scores[np.arange(n), y][:, None]
    margins = np.maximum(0, scores - correct + 1)
    margins[np.arange(n), y] = 0
    return margins.sum() / n


# SciPy lectures, numerical recipes, textbooks of finance and of graphs
@case(draw(20))
def simpson(y):
    h = 0.1
    return h / 3 * (y[0] + y[-2] + 4 * y[1:-1:2].sum() + 2 * y[2:-2:2].sum())


@case(draw(6), draw(6), 0.9)
def lagrange(x, y, t):
    total = 0.0
    for i in range(len(x)):
        term = y[i]
        for j in range(len(x)):
            if j != i:
                term = term * (t - j) / (i - j)
        total += term
    return total


@case(draw(5), draw(5), draw(5), draw(5))
def thomas(a, b, c, d):
    b = b + 3
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.zeros(n)
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return np.sum(x**2)


@case(draw(4, 4), draw(4))
def jacobi(A, b):
    A = A + 4 * np.eye(4)
    D = np.diag(A)
    rest = A - np.diagflat(D)
    x = np.zeros(len(b))
    for _ in range(10):
        x = (b - rest @ x) / D
    return x @ x


@case(draw(4, 4), draw(4))
def conjugate_gradients(A, b):
    A = A @ A.T + np.eye(4)
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    for _ in range(3):
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
    return np.sum(x)


@case(draw(5, 2))
def polygon_area(P):
    x, y = P[:, 0], P[:, 1]
    return 0.5 * np.abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))


@case(draw(6), draw(6))
def spearman(x, y):
    rx = np.argsort(np.argsort(x)) * 1.0
    ry = np.argsort(np.argsort(y)) * 1.0
    return np.sum((rx - ry) ** 2) + np.corrcoef(x, y)[0, 1]


@case(draw(8))
def drawdown(prices):
    peak = np.maximum.accumulate(prices)
    return np.max((peak - prices) / peak)


@case(draw(8), draw(8))
def rolling_sharpe(r, rf):
    ex = r - rf
    return np.sqrt(252) * ex.mean() / ex.std(ddof=1)


@case(draw(5), draw(4))
def edit_path(x, y):
    n, m = len(x), len(y)
    D = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        D[i, 0] = i * 0.5
    for j in range(1, m + 1):
        D[0, j] = j * 0.5
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = np.abs(x[i - 1] - y[j - 1])
            D[i, j] = min(D[i - 1, j] + 0.5, D[i, j - 1] + 0.5, D[i - 1, j - 1] + cost)
    return D[n, m]


@case(draw(4, 4))
def floyd_warshall(W):
    D = W.copy()
    n = len(D)
    for k in range(n):
        D = np.minimum(D, D[:, k][:, None] + D[k, :][None, :])
    return D.sum()


@case(draw(4, 3), draw(5))
def q_learning(Q0, rewards):
    Q = Q0.copy()
    total = 0.0
    for t in range(5):
        a = np.argmax(Q[t % 4])
        total += Q[t % 4, a] * rewards[t]
    return total


@case(draw(6, 4))
def top_two_margin(p):
    s = np.sort(p, axis=1)
    return np.mean(s[:, -1] - s[:, -2])


@case(draw(6), np.array([1, 0, 1, 1, 0, 0]))
def average_precision(scores, y):
    order = np.argsort(-scores)
    hits = (y[:, None] == 1) * 1.0
    rel = hits[:, 0][order]
    prec = np.cumsum(rel) / np.arange(1, len(rel) + 1)
    return np.sum(prec * rel * scores[order]) / rel.sum()


@case(draw(5, 3))
def gram_schmidt(A):
    Q = []
    for j in range(3):
        v = A[:, j]
        for q in Q:
            v = v - (q @ A[:, j]) * q
        Q.append(v / np.linalg.norm(v))
    return np.sum(np.array(Q) * A.T)


@case(draw(5, 3))
def whitened(X):
    Xc = X - X.mean(0)
    C = Xc.T @ Xc / (len(X) - 1)
    L = np.linalg.cholesky(C + 0.1 * np.eye(3))
    return np.sum(np.linalg.solve(L, Xc.T) ** 3)


@case(draw(30), draw(3))
def bilinear(img, at):
    g = img.reshape(5, 6)
    y, x = at[0] * 2, at[1] * 3
    y0, x0 = np.floor(y).astype(int), np.floor(x).astype(int)
    y0, x0 = np.clip(y0, 0, 3), np.clip(x0, 0, 4)
    dy, dx = y - y0, x - x0
    return (
        g[y0, x0] * (1 - dy) * (1 - dx)
        + g[y0 + 1, x0] * dy * (1 - dx)
        + g[y0, x0 + 1] * (1 - dy) * dx
        + g[y0 + 1, x0 + 1] * dy * dx
    )


@case(draw(8))
def entropy_of_histogram(x):
    edges = np.array([0.0, 0.5, 0.8, 1.5])
    counts, _ = np.histogram(x, bins=edges)
    p = counts / counts.sum()
    return -np.sum(p * np.log(p + 1e-9)) + x.sum()


@case(draw(6), draw(6))
def concordance(t, s):
    n, c = len(t), 0.0
    for i in range(n):
        for j in range(n):
            if t[i] < t[j]:
                c += (s[i] - s[j]) / (1 + np.abs(s[i] - s[j]))
    return c


@case(draw(5), draw(5))
def isotonic_loss(x, w):
    m = np.maximum.accumulate(x)
    return np.sum(w * (x - m) ** 2)


@case(draw(6, 2))
def farthest_points(P):
    d = np.full(len(P), 10.0)
    k = 0
    total = 0.0
    for _ in range(3):
        d = np.minimum(d, ((P - P[k]) ** 2).sum(axis=1))
        k = np.argmax(d)
        total += d[k]
    return total


@case(draw(6), draw(6))
def ridge_path(x, y):
    return sum((y @ x) / (x @ x + lam) for lam in [0.1, 1.0, 10.0])


@case(draw(4, 4))
def page_rank(A):
    M = A / A.sum(axis=0)
    r = np.ones(4) / 4
    for _ in range(20):
        r = 0.85 * M @ r + 0.15 / 4
    return r[np.argmax(r)]


@case(draw(5), draw(5))
def trapezoid_auc(fpr, tpr):
    order = np.argsort(fpr)
    return np.trapezoid(tpr[order], fpr[order])
