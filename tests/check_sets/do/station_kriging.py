"""Gridding of station data by distance-weighted attention (NumPy, no training).

grid     (G, 2)   latitude, longitude in degrees of the target points
stations (S, 2)   the same for the stations
obs      (S, T)   hourly observations, NaN = missing
scale_km          e-folding scale of the *squared* distance: logit = -(dist/scale)^2

For every hour and grid point the weights are a softmax over the stations that
report in that hour.  An hour in which nobody reports yields NaN on the grid -
that is what the archive expects.
"""
import numpy as np

EARTH_KM = 6371.0


def great_circle(a, b):
    """haversine distance, (G, 2) x (S, 2) -> (G, S)"""
    a, b = np.radians(a), np.radians(b)
    dlat = a[:, None, 0] - b[None, :, 0]
    dlon = a[:, None, 1] - b[None, :, 1]
    h = np.sin(dlat / 2) ** 2 + np.cos(a[:, None, 0]) * np.cos(b[None, :, 0]) * np.sin(dlon / 2) ** 2
    return 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(h, 0, 1)))


def interpolate(grid, stations, obs, scale_km=150.0):
    logit = -(great_circle(grid, stations) / scale_km) ** 2          # G, S
    there = ~np.isnan(obs)                                           # S, T
    val = np.where(there, obs, 0.0)
    out = np.empty((len(grid), obs.shape[1]))
    for t in range(obs.shape[1]):
        ok = there[:, t]
        if not ok.any():
            out[:, t] = np.nan
            continue
        l = logit[:, ok]
        w = np.exp(l - l.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        out[:, t] = w @ val[ok, t]
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    st = np.c_[rng.uniform(45, 50, 12), rng.uniform(5, 15, 12)]
    print(interpolate(st[:3] + 0.1, st, rng.normal(10, 3, (12, 4))))
