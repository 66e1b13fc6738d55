"""Attention over day-long seismograms, tile by tile, in constant memory.

The score matrix of 8.64e6 samples cannot be stored; it is visited in tiles and the
softmax is carried along: running maximum m, running sum l and running numerator a.
When a new tile raises m, what was gathered so far shrinks by exp(m_old - m_new).
"""
import numpy as np

TILE_Q = 64
TILE_K = 128


def _tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def tiled_attention(q, k, v, alive=None, causal=False, tile_q=TILE_Q, tile_k=TILE_K):
    """
    Parameters
    ----------
    q : (n, d)      k : (m, d)      v : (m, c)
    alive : (m,) bool, optional
        False where the station was off (the key is ignored).
    causal : bool
        Sample i of the queries is sample i + m - n of the keys, and sees only keys
        up to itself.

    Returns
    -------
    (n, c) ; rows which see no key are zero.
    """
    n, d = q.shape
    m_keys, c = v.shape
    shift = m_keys - n
    out = np.zeros((n, c))
    for i0, i1 in _tiles(n, tile_q):
        m = np.full(i1 - i0, -np.inf)
        l = np.zeros(i1 - i0)
        a = np.zeros((i1 - i0, c))
        for j0, j1 in _tiles(m_keys, tile_k):
            if causal and j0 > i1 - 1 + shift:
                break
            s = q[i0:i1] @ k[j0:j1].T / np.sqrt(d)
            if alive is not None:
                s = np.where(alive[None, j0:j1], s, -np.inf)
            if causal:
                late = np.arange(j0, j1)[None, :] > np.arange(i0, i1)[:, None] + shift
                s = np.where(late, -np.inf, s)
            m_new = np.maximum(m, s.max(axis=1))
            ref = np.where(np.isfinite(m_new), m_new, 0.0)
            p = np.exp(s - ref[:, None])
            shrink = np.exp(m - ref)
            l = l * shrink + p.sum(axis=1)
            a = a * shrink[:, None] + p @ v[j0:j1]
            m = m_new
        some = l > 0
        out[i0:i1][some] = a[some] / l[some, None]
    return out


def sta_lta(x, ns=20, nl=200):
    """Classic trigger; used to choose the query samples."""
    e = np.cumsum(np.concatenate([[0.0], x ** 2]))
    i = np.arange(nl, len(x))
    return (e[i] - e[i - ns]) / ns / ((e[i] - e[i - nl]) / nl + 1e-12)


def demo(seed=0):
    r = np.random.default_rng(seed)
    trace = r.normal(size=(1000, 8))
    trace[600:640] *= 6
    picks = 200 + np.flatnonzero(sta_lta(trace[:, 0]) > 3)
    return tiled_attention(trace[picks], trace, trace)


if __name__ == "__main__":
    print(demo().shape)
