"""Estimate sensor embeddings at requested times from irregular telemetry."""
import numpy as np


def read_at(t_query, q, t_obs, k, v, present, half_life=30.0):
    """
    t_query (Q,)   seconds        q (Q, d)
    t_obs   (N,)   seconds        k (N, d)   v (N, m)
    present (N,)   bool, False where the packet was lost

    Weight = softmax of  q.k / sqrt(d) - ln 2 * |dt| / half_life  over packets that are
    present and not later than the query time. Returns (Q, m); zeros where nothing is known yet.
    """
    d = q.shape[-1]
    dt = t_query[:, None] - t_obs[None, :]
    s = q @ k.T / np.sqrt(d) - np.log(2.0) * np.abs(dt) / half_life
    ok = present[None, :] & (dt >= 0)
    s = np.where(ok, s, -np.inf)
    peak = s.max(axis=1, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    e = np.exp(s - peak)
    z = e.sum(axis=1, keepdims=True)
    w = np.divide(e, z, out=np.zeros_like(e), where=z > 0)
    return w @ v
