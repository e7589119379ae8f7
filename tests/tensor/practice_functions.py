"""Functions from practice in six fields, as their authors would write them in NumPy, written before any of them was tried: 23 of
the first 26 were taken as they stand, the other three are since there are `sliding_window_view`, one side of a full `svd` and
`maximum.at`. The last four were taken as they stand.
"""

from __future__ import annotations

import math

import numpy as np
from cases import Cases, entering
from scipy.special import erf, gammaln

R = np.random.default_rng(7)
CASES: Cases = []
case = entering(CASES)

# statistics
_t = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0])


@case(R.normal(size=3), R.normal(size=(8, 3)), _t, np.array([1, 1, 0, 1, 1, 0, 1, 1]))
def cox_breslow(beta, X, time, event):
    eta = X @ beta
    ll = 0.0
    for i in range(len(time)):
        if event[i] == 1:
            at_risk = time >= time[i]
            ll += eta[i] - np.log(np.sum(np.exp(eta[at_risk])))
    return -ll / len(time)


@case(R.normal(size=12), 0.4)
def kde_loo(x, h):
    n = len(x)
    total = 0
    for i in range(n):
        others = np.delete(x, i)
        dens = np.exp(-0.5 * ((x[i] - others) / h) ** 2) / (h * np.sqrt(2 * np.pi))
        total += np.log(dens.mean())
    return total / n


@case(np.array(1.3), 2.1, np.array([3, 0, 5, 2]), np.array([5, 4, 9, 6]))
def beta_binomial(a, b, k, n):
    ll = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    ll += gammaln(k + a) + gammaln(n - k + b) - gammaln(n + a + b)
    ll += gammaln(a + b) - gammaln(a) - gammaln(b)
    return ll.sum()


@case(R.normal(size=15), np.sort(R.uniform(0, 3, 15)), 1.1, 0.5)
def loess(y, x, x0, frac):
    n = len(x)
    k = int(np.ceil(frac * n))
    d = np.abs(x - x0)
    h = np.sort(d)[k - 1]
    w = np.clip(1 - (d / h) ** 3, 0, None) ** 3
    A = np.column_stack([np.ones(n), x - x0])
    beta = np.linalg.solve(A.T @ (w[:, None] * A), A.T @ (w * y))
    return beta[0]


@case(
    R.normal(size=(20, 2)), np.array([0.5, 0.5]), R.normal(size=(2, 2)), np.stack([np.eye(2)] * 2)
)
def gmm_loglik(X, pi, mu, Sigma):
    n, d = X.shape
    K = len(pi)
    logp = np.zeros((n, K))
    for k in range(K):
        L = np.linalg.cholesky(Sigma[k])
        z = np.linalg.solve(L, (X - mu[k]).T)
        logp[:, k] = (
            np.log(pi[k])
            - 0.5 * np.sum(z**2, axis=0)
            - np.sum(np.log(np.diag(L)))
            - d / 2 * np.log(2 * np.pi)
        )
    m = logp.max(axis=1, keepdims=True)
    return np.sum(m[:, 0] + np.log(np.exp(logp - m).sum(axis=1)))


# physics
@case(R.normal(size=(6, 5)), -0.4, 0.9)
def phi4_action(phi, m2, lam):
    s = 0.0
    for axis in range(phi.ndim):
        s += 0.5 * np.sum((np.roll(phi, -1, axis) - phi) ** 2)
    return s + np.sum(0.5 * m2 * phi**2 + lam / 24 * phi**4)


@case(R.uniform(0, 4, (6, 3)), 4.0, 1.5)
def lj_energy(pos, box, rc):
    n = pos.shape[0]
    e = 0.0
    for i in range(n - 1):
        for j in range(i + 1, n):
            rij = pos[i] - pos[j]
            rij -= box * np.round(rij / box)
            r2 = np.dot(rij, rij)
            if r2 < rc * rc:
                s6 = 0.3 / r2**3
                e += 4 * s6 * (s6 - 1)
    return e


@case(R.normal(size=9), 0.3, 7)
def crank_nicolson(u0, r, nt):
    n = len(u0)
    A = np.zeros((n, n))
    B = np.zeros((n, n))
    for i in range(n):
        A[i, i] = 1 + r
        B[i, i] = 1 - r
        if i > 0:
            A[i, i - 1] = -r / 2
            B[i, i - 1] = r / 2
        if i < n - 1:
            A[i, i + 1] = -r / 2
            B[i, i + 1] = r / 2
    u = u0.copy()
    for _ in range(nt):
        u = np.linalg.solve(A, B @ u)
    return np.sum(u**2)


@case(np.array([1.0, 1.0, 1.0]), 0.02, 30)
def lorenz_rk4(s, dt, steps):
    def f(s):
        x, y, z = s
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    traj = [s]
    for _ in range(steps):
        k1 = f(s)
        k2 = f(s + dt / 2 * k1)
        k3 = f(s + dt / 2 * k2)
        k4 = f(s + dt * k3)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        traj.append(s)
    return np.mean(np.array(traj)[:, 0] ** 2)


@case(R.normal(size=(5, 5)), 0.4, R.choice([-1.0, 1.0], size=(5, 5)))
def ising_pseudo_loglik(h, J, spins):
    L = spins.shape[0]
    total = 0.0
    for i in range(L):
        for j in range(L):
            nb = (
                spins[(i + 1) % L, j]
                + spins[(i - 1) % L, j]
                + spins[i, (j + 1) % L]
                + spins[i, (j - 1) % L]
            )
            field = J * nb + h[i, j]
            total += spins[i, j] * field - np.log(2 * np.cosh(field))
    return total


# vision
@case(R.uniform(size=(9, 8)), 0.05)
def harris(img, k):
    gy, gx = np.gradient(img)

    def box(a):
        p = np.pad(a, 1, mode="edge")
        out = np.zeros_like(a)
        for dy in range(3):
            for dx in range(3):
                out += p[dy : dy + a.shape[0], dx : dx + a.shape[1]]
        return out / 9

    sxx, syy, sxy = box(gx * gx), box(gy * gy), box(gx * gy)
    r = sxx * syy - sxy**2 - k * (sxx + syy) ** 2
    return np.sum(r * r)


@case(R.uniform(size=(9, 9)), R.uniform(size=(9, 9)))
def ssim(x, y):
    C1, C2 = 0.01**2, 0.03**2
    wx = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    wy = np.lib.stride_tricks.sliding_window_view(y, (3, 3))
    mx, my = wx.mean(axis=(-2, -1)), wy.mean(axis=(-2, -1))
    vx, vy = wx.var(axis=(-2, -1)), wy.var(axis=(-2, -1))
    cov = ((wx - mx[..., None, None]) * (wy - my[..., None, None])).mean(axis=(-2, -1))
    s = (2 * mx * my + C1) * (2 * cov + C2) / ((mx**2 + my**2 + C1) * (vx + vy + C2))
    return s.mean()


@case(R.normal(size=(3, 2)), R.normal(size=(3, 3, 4)))
def triangulate(pts, P):
    rows = []
    for cam, (u, v) in zip(P, pts, strict=True):
        rows.append(u * cam[2] - cam[0])
        rows.append(v * cam[2] - cam[1])
    A = np.stack(rows)
    _, _, Vt = np.linalg.svd(A)
    X = Vt[-1]
    return np.sum((X[:3] / X[3]) ** 2)


@case(R.uniform(-0.5, 0.5, (7, 2)), np.array([0.1, -0.05, 0.01]))
def undistort(pts, k):
    und = pts.copy()
    for _ in range(5):
        r2 = (und**2).sum(axis=1, keepdims=True)
        factor = 1 + k[0] * r2 + k[1] * r2**2 + k[2] * r2**3
        und = pts / factor
    return np.linalg.norm(und, axis=1).sum()


# finance


@case(np.abs(100 + np.cumsum(R.normal(size=(12, 5)) * 4, axis=1)), 101.0, 0.01)
def longstaff_schwartz(S, K, r):
    _, T = S.shape
    cash = np.maximum(K - S[:, -1], 0)
    for t in range(T - 2, -1, -1):
        cash = cash * np.exp(-r)
        x = S[:, t] / K
        A = np.vander(x, 3)
        coef = np.linalg.lstsq(A, cash, rcond=None)[0]
        cont = A @ coef
        ex = np.maximum(K - S[:, t], 0)
        cash = np.where((ex > cont) & (ex > 0), ex, cash)
    return cash.mean() * np.exp(-r)


@case(np.array([0.03, -0.02, 0.01, 1.4]), np.arange(1, 8) * 0.5, np.array([2.0] * 6 + [102.0]))
def nelson_siegel(p, times, cashflows):
    b0, b1, b2, tau = p
    price = 0
    for t, c in zip(times, cashflows, strict=True):
        load = (1 - math.exp(-t / tau)) / (t / tau)
        y = b0 + b1 * load + b2 * (load - math.exp(-t / tau))
        price += c * math.exp(-y * t)
    return price


@case(np.array([0.2, 0.5, 0.3]), R.normal(size=(40, 3)), 0.9)
def cvar(w, returns, alpha):
    losses = -returns @ w
    tail = int(np.ceil((1 - alpha) * len(losses)))
    return np.sort(losses)[-tail:].mean()


# learning
@case(
    R.normal(size=(5, 8)), R.normal(size=(8, 24)), R.normal(size=(8, 8)), np.ones(8), np.zeros(8), 2
)
def attention_block(x, Wqkv, Wo, g, b, heads):
    T, D = x.shape
    mean = x.mean(-1, keepdims=True)
    h = g * (x - mean) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + b
    q, k, v = np.split(h @ Wqkv, 3, axis=-1)
    q, k, v = [a.reshape(T, heads, D // heads).transpose(1, 0, 2) for a in (q, k, v)]
    s = q @ k.swapaxes(-1, -2) / np.sqrt(D // heads)
    s = np.where(np.tril(np.ones((T, T))) == 1, s, -1e9)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    o = (s @ v).transpose(1, 0, 2).reshape(T, D) @ Wo
    y = x + o
    return np.sum(0.5 * y * (1 + erf(y / np.sqrt(2))))


@case(R.normal(size=(6, 4)), R.normal(size=(4, 4)), np.array([0, 1, 3, 3, 2, 0]))
def crf_nll(emissions, trans, tags):
    T, _ = emissions.shape
    score = emissions[0, tags[0]]
    alpha = emissions[0]
    for t in range(1, T):
        score += trans[tags[t - 1], tags[t]] + emissions[t, tags[t]]
        m = alpha[:, None] + trans
        alpha = np.log(np.sum(np.exp(m), axis=0)) + emissions[t]
    return np.log(np.exp(alpha).sum()) - score


@case(R.normal(size=(4, 3)), R.normal(size=(4, 3)), 0.5)
def nt_xent(z1, z2, tau):
    z = np.concatenate([z1, z2])
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    n = len(z1)
    sim = z @ z.T / tau
    np.fill_diagonal(sim, -np.inf)
    pos = np.concatenate([np.arange(n, 2 * n), np.arange(n)])
    logits = sim - sim.max(axis=1, keepdims=True)
    logp = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -logp[np.arange(2 * n), pos].mean()


@case(R.normal(size=(7, 3)), R.normal(size=(3, 9)), R.normal(size=(3, 9)), np.zeros(9))
def gru(xs, W, U, b):
    H = U.shape[0]
    h = np.zeros(H)
    for x in xs:
        gx = x @ W + b
        gh = h @ U
        z = 1 / (1 + np.exp(-(gx[:H] + gh[:H])))
        r = 1 / (1 + np.exp(-(gx[H : 2 * H] + gh[H : 2 * H])))
        c = np.tanh(gx[2 * H :] + r * gh[2 * H :])
        h = (1 - z) * h + z * c
    return h @ h


# graphs
_src = np.array([0, 1, 2, 3, 4, 0, 2, 5])
_dst = np.array([1, 2, 0, 4, 5, 3, 5, 0])


@case(R.normal(size=(6, 3)), R.normal(size=(3, 4)), R.normal(size=8), _src, _dst)
def graph_attention(H, W, a, src, dst):
    n = len(H)
    Z = H @ W
    e = np.concatenate([Z[src], Z[dst]], axis=1) @ a
    e = np.where(e > 0, e, 0.2 * e)
    m = np.full(n, -np.inf)
    for k in range(len(dst)):
        m[dst[k]] = np.maximum(m[dst[k]], e[k])
    w = np.exp(e - m[dst])
    norm = np.zeros(n)
    np.add.at(norm, dst, w)
    out = np.zeros_like(Z)
    np.add.at(out, dst, (w / norm[dst])[:, None] * Z[src])
    return np.sum(np.tanh(out))


_ptr = np.array([0, 2, 3, 3, 6, 8])
_ind = np.array([1, 4, 0, 0, 2, 3, 1, 2])


@case(R.uniform(size=8), R.uniform(size=5), _ptr, _ind)
def csr_power(data, x, indptr, indices):
    n = len(indptr) - 1
    for _ in range(3):
        y = np.zeros(n)
        for i in range(n):
            for k in range(indptr[i], indptr[i + 1]):
                y[i] += data[k] * x[indices[k]]
        x = y / (1 + np.abs(y).sum())
    return np.sum(x**2)


_par = np.array([-1, 0, 0, 1, 1, 2, 5])


@case(R.normal(size=(7, 3)), R.normal(size=(3, 3)), _par)
def tree_log_partition(logpot, edge, parent):
    n, _ = logpot.shape
    msg = logpot.copy()
    for i in range(n - 1, 0, -1):
        up = np.log(np.exp(msg[i][None, :] + edge).sum(axis=1))
        msg[parent[i]] += up
    return np.log(np.exp(msg[0]).sum())


@case(R.uniform(1, 2, 8), _src, _dst, 6, 0.3)
def soft_bellman_ford(w, src, dst, n, tau):
    d = np.full(n, 10.0)
    d[0] = 0
    for _ in range(n - 1):
        new = np.exp(-d / tau)
        for e in range(len(w)):
            new[dst[e]] += np.exp(-(d[src[e]] + w[e]) / tau)
        d = -tau * np.log(new)
        d[0] = 0.0
    return d[5]


@case(R.uniform(size=(6, 6)), R.normal(size=(6, 2)))
def spectral_cut(W, Y):
    A = (W + W.T) / 2
    deg = A.sum(1)
    Dm = np.diag(1 / np.sqrt(deg))
    L = np.eye(len(A)) - Dm @ A @ Dm
    Q, _ = np.linalg.qr(Y)
    return np.trace(Q.T @ L @ Q)


# loops over windows, pairs, triples and time
@case(R.uniform(size=(7, 6)), 1.2, 0.3)
def bilateral_filter(img, ss, sr):
    n, m = img.shape
    p = np.pad(img, 2, mode="edge")
    num, den = np.zeros((n, m)), np.zeros((n, m))
    for dy in range(-2, 3):
        for dx in range(-2, 3):
            q = p[2 + dy : 2 + dy + n, 2 + dx : 2 + dx + m]
            w = np.exp(-(dy * dy + dx * dx) / (2 * ss**2) - (q - img) ** 2 / (2 * sr**2))
            num = num + w * q
            den = den + w
    return np.sum((num / den) ** 2)


@case(R.normal(size=(6, 3)), 2.0)
def three_body(pos, lam):
    n = len(pos)
    energy = 0.0
    for i in range(n):
        for j in range(n):
            for k in range(j):
                if i != j and i != k:
                    a, b = pos[j] - pos[i], pos[k] - pos[i]
                    ra, rb = np.sqrt(np.sum(a * a)), np.sqrt(np.sum(b * b))
                    cosine = np.sum(a * b) / (ra * rb)
                    energy += lam * (cosine + 1 / 3) ** 2 * np.exp(-ra - rb)
    return energy


@case(R.normal(size=(9, 5)), np.array([1, 3, 3, 2]))
def ctc(logp, labels):
    size = 2 * len(labels) + 1
    ext = np.zeros(size, dtype=int)
    ext[1::2] = labels
    skip = np.array([s >= 2 and s % 2 == 1 and ext[s] != ext[s - 2] for s in range(size)])
    a = np.full(size, -1e30)
    a[0] = logp[0, 0]
    a[1] = logp[0, ext[1]]
    for t in range(1, len(logp)):
        s1 = np.concatenate([[-1e30], a[:-1]])
        s2 = np.where(skip, np.concatenate([[-1e30, -1e30], a[:-2]]), -1e30)
        m = np.maximum(a, np.maximum(s1, s2))
        a = m + np.log(np.exp(a - m) + np.exp(s1 - m) + np.exp(s2 - m)) + logp[t, ext]
    return -np.logaddexp(a[-1], a[-2])


@case(R.normal(size=(8, 4)), np.arange(8) % 3, 0.5)
def supervised_contrastive(z, labels, tau):
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    n = len(z)
    loss = 0.0
    for i in range(n):
        den = sum(np.exp(z[i] @ z[a] / tau) for a in range(n) if a != i)
        pos = [p for p in range(n) if p != i and labels[p] == labels[i]]
        loss -= sum(z[i] @ z[p] / tau - np.log(den) for p in pos) / len(pos)
    return loss / n
