"""Nadaraya-Watson smoothing of irregularly sampled series, seen as attention.

Chapter 11 of the reading group: before Transformers there was kernel regression.  The "query" is
the time we ask about, the "keys" are the observation times and the "values" the observations:

    f(t) = sum_j w_j(t) y_j,    w_j(t) = softmax_j( -(t - t_j)^2 / (2 h^2) )
"""
import numpy as np


def smooth(asked, stamps, readings, present=None, bandwidth=0.5):
    """
    asked:    (S, A) times to interpolate at
    stamps:   (S, N) observation times
    readings: (S, N, C) observations
    present:  (S, N, C) bool or None, False where the channel was not measured.  Channels have
              their own weights because of this.  If a channel was never measured the answer is 0.
    bandwidth: h, one float or one per channel (C,)
    returns   (S, A, C)
    """
    S, N, C = readings.shape
    h = np.broadcast_to(np.asarray(bandwidth, dtype=float), (C,))
    gap = asked[:, :, None] - stamps[:, None, :]              # (S, A, N)
    closeness = -(gap[..., None] ** 2) / (2.0 * h ** 2)       # (S, A, N, C)
    if present is not None:
        ok = present[:, None, :, :]
        closeness = np.where(ok, closeness, -np.inf)
    peak = closeness.max(axis=2, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    mass = np.exp(closeness - peak)
    total = mass.sum(axis=2, keepdims=True)
    share = mass / np.where(total > 0, total, 1.0)
    known = readings if present is None else np.where(present, readings, 0.0)
    return np.einsum("sanc,snc->sac", share, known)


def leave_one_out_error(stamps, readings, bandwidth):
    """Mean squared error when each observation is predicted from all the others."""
    S, N, C = readings.shape
    err = 0.0
    for n in range(N):
        rest = np.delete(np.arange(N), n)
        guess = smooth(stamps[:, n:n + 1], stamps[:, rest], readings[:, rest], bandwidth=bandwidth)
        err += ((guess[:, 0] - readings[:, n]) ** 2).mean()
    return err / N


def pick_bandwidth(stamps, readings, grid=(0.1, 0.2, 0.5, 1.0, 2.0)):
    errors = [leave_one_out_error(stamps, readings, h) for h in grid]
    return grid[int(np.argmin(errors))]
