"""Blog: "Kriging is (almost) attention".

Nadaraya-Watson estimate of rainfall at villages without a gauge. The attention
weight of gauge j for village i is a softmax over j of
    -|x_i - x_j|^2 / (2 h^2) - gamma * |elev_i - elev_j| / 1000
so the bandwidth h plays the part of the temperature: there is no sqrt(d).
"""
import numpy as np
from numpy.typing import NDArray

EARTH_KM = 6371.0


def project(lonlat: NDArray, ref: NDArray) -> NDArray:
    """equirectangular km around `ref`"""
    d = np.radians(lonlat - ref)
    return EARTH_KM * np.stack([d[:, 0] * np.cos(np.radians(ref[1])), d[:, 1]], axis=1)


def softmax_rows(a: NDArray) -> NDArray:
    a = np.exp(a - np.nanmax(a, axis=1, keepdims=True))
    return a / a.sum(axis=1, keepdims=True)


def kernel_attention(sites: NDArray, gauges: NDArray, rain: NDArray,
                     h: float, gamma: float = 0.0, ok: NDArray | None = None,
                     leave_self_out: bool = False) -> NDArray:
    """sites (n, 3), gauges (m, 3) as x km, y km, elevation m; rain (m,) or (m, days).

    ok             (m,) bool, False = the gauge was broken, its rain may be anything
    leave_self_out for cross validation with sites = gauges: i does not see i
    """
    if ok is not None:
        rain = np.where(ok if rain.ndim == 1 else ok[:, None], rain, 0.0)
    d2 = ((sites[:, None, :2] - gauges[None, :, :2]) ** 2).sum(-1)
    climb = np.abs(sites[:, None, 2] - gauges[None, :, 2]) / 1000.0
    logit = -d2 / (2 * h ** 2) - gamma * climb
    if ok is not None:
        logit[:, ~ok] = -np.inf
    if leave_self_out:
        np.fill_diagonal(logit, -np.inf)
    return softmax_rows(logit) @ rain


def best_bandwidth(gauges, rain, grid=(5.0, 10.0, 20.0, 40.0), gamma=0.0):
    """leave-one-out cross validation"""
    err = [np.mean((kernel_attention(gauges, gauges, rain, h, gamma, leave_self_out=True) - rain) ** 2)
           for h in grid]
    return grid[int(np.argmin(err))], err


if __name__ == "__main__":
    g = np.random.default_rng(8)
    xy = project(g.uniform([7, 45], [9, 47], (60, 2)), np.array([8.0, 46.0]))
    gauges = np.c_[xy, g.uniform(200, 2500, 60)]
    rain = 2 + gauges[:, 2] / 800 + g.normal(0, 0.3, 60)
    print(best_bandwidth(gauges, rain, gamma=1.0))
