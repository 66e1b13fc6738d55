import numpy as np


def fill_gauges(t_query, t_obs, level, good, hours=(3.0, 12.4, 25.0), mix=None):
    """Fill gaps in tide gauge records by kernel attention over observation times.

    t_query: (Q,)   times wanted, hours
    t_obs:   (T,)   times of the records, any spacing
    level:   (G, T) water level per gauge
    good:    (G, T) bool, False where the record is broken
    hours:   bandwidth of each Gaussian kernel (one per head)
    mix:     weights of the heads, default all equal; rescaled to sum 1

    Returns (G, Q). Gauges without any good record come back as 0.
    """
    hours = np.asarray(hours, float)
    mix = np.ones(len(hours)) if mix is None else np.asarray(mix, float)
    mix = mix / mix.sum()

    dt = t_query[:, None] - t_obs[None, :]                               # Q T
    logk = -0.5 * (dt[None] / hours[:, None, None]) ** 2                 # K Q T
    logk = np.where(good[:, None, None, :], logk[None], -np.inf)         # G K Q T
    top = logk.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    k = np.exp(logk - top)
    z = k.sum(axis=-1, keepdims=True)
    w = np.divide(k, z, out=np.zeros_like(k), where=z > 0)
    clean = np.where(good, level, 0.0)
    per_head = np.einsum("gkqt,gt->gkq", w, clean)
    return np.einsum("k,gkq->gq", mix, per_head)
