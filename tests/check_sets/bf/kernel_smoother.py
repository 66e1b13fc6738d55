"""Nadaraya-Watson smoothing of light curves (variable stars), chap. 2 of my thesis.

The regression estimate is attention with a Gaussian kernel on the time difference.
"""
from typing import NamedTuple

import numpy as np


class LightCurve(NamedTuple):
    t: np.ndarray      # days, (n,)
    mag: np.ndarray    # magnitudes, (n,)
    err: np.ndarray    # 1 sigma errors, (n,)


def log_kernel(dt, h):
    return -0.5 * (dt / h) ** 2


def smooth(curve: LightCurve, t_new, h: float, exclude_self: bool = False):
    """Kernel estimate at the times t_new (m,), observations weighted by 1/err^2.

    The weight of observation j at time t is proportional to
    exp(-(t - t_j)^2 / 2 h^2) / err_j^2, normalised over j.  exclude_self leaves out
    the observations at exactly the same time (leave-one-out cross validation).
    """
    t_new = np.asarray(t_new, dtype=float)
    dt = t_new[:, None] - curve.t[None, :]
    logw = log_kernel(dt, h) - 2.0 * np.log(curve.err)[None, :]
    if exclude_self:
        logw = np.where(dt == 0, -np.inf, logw)
    logw -= logw.max(axis=1, keepdims=True)
    w = np.exp(logw)
    w /= w.sum(axis=1, keepdims=True)
    return w @ curve.mag


def cross_validate(curve: LightCurve, grid):
    scores = []
    for h in grid:
        r = curve.mag - smooth(curve, curve.t, h, exclude_self=True)
        scores.append(np.mean((r / curve.err) ** 2))
    return grid[int(np.argmin(scores))], scores


def fake_star(n=60, seed=1):
    g = np.random.default_rng(seed)
    t = np.sort(g.uniform(0, 10, n))
    e = g.uniform(0.05, 0.2, n)
    return LightCurve(t, np.sin(t) + e * g.normal(size=n), e)


if __name__ == "__main__":
    c = fake_star()
    print(cross_validate(c, [0.05, 0.1, 0.3, 1.0, 3.0])[0])
