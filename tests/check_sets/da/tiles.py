import numpy as np


def streamed(Q, K, V, tile=16, causal=False):
    """Exact attention computed tile by tile, never holding a full score row.

    Q (..., T, d), K (..., S, d), V (..., S, e).  causal=True lines the two
    sequences up at their ends: query t may see keys up to t + S - T.
    A query that may see no key at all returns zeros.
    """
    T, S, d = Q.shape[-2], K.shape[-2], Q.shape[-1]
    lead = Q.shape[:-1]
    acc = np.zeros(lead + (V.shape[-1],))
    mass = np.zeros(lead)
    peak = np.full(lead, -np.inf)
    last = np.arange(T) + (S - T)
    for a in range(0, S, tile):
        b = min(a + tile, S)
        s = Q @ np.swapaxes(K[..., a:b, :], -1, -2) / np.sqrt(d)
        if causal:
            s = np.where(np.arange(a, b)[None, :] <= last[:, None], s, -np.inf)
        fresh = np.maximum(peak, s.max(axis=-1))
        ground = np.where(np.isfinite(fresh), fresh, 0.0)
        fade = np.exp(peak - ground)
        p = np.exp(s - ground[..., None])
        acc = acc * fade[..., None] + p @ V[..., a:b, :]
        mass = mass * fade + p.sum(axis=-1)
        peak = fresh
    return acc / np.where(mass > 0, mass, 1.0)[..., None]
