"""A readable NumPy walk through the FlashAttention tiling (forward only), for the blog post."""
import numpy as np


def naive(Q, K, V):
    """what we want to reproduce, only for the figures"""
    S = Q @ K.T / np.sqrt(Q.shape[1])
    P = np.exp(S - S.max(1, keepdims=True))
    return P @ V / P.sum(1, keepdims=True)


def tiles(n, size):
    start = 0
    while start < n:
        yield slice(start, min(start + size, n))
        start += size


def flash_forward(Q, K, V, Br=4, Bc=3, causal=False):
    """
    Q: (N, d), K and V: (M, d).  With causal=True the last query is aligned with the
    last key, like in recent versions of the library.
    Returns O (N, d) and L (N,), the logsumexp needed by the backward pass.
    """
    N, d = Q.shape
    M = K.shape[0]
    shift = M - N
    if causal and shift < 0:
        raise ValueError("more queries than keys: some query would have nothing to look at")
    O = np.zeros((N, V.shape[1]))
    L = np.zeros(N)
    scale = 1.0 / np.sqrt(d)

    for r in tiles(N, Br):
        rows = np.arange(r.start, r.stop) + shift
        o = np.zeros((r.stop - r.start, V.shape[1]))
        l = np.zeros(r.stop - r.start)
        m = np.full(r.stop - r.start, -np.inf)
        for c in tiles(M, Bc):
            if causal and c.start > rows[-1]:
                break                                # the whole tile lies in the future
            S = (Q[r] @ K[c].T) * scale
            if causal:
                cols = np.arange(c.start, c.stop)
                S = np.where(cols[None, :] <= rows[:, None], S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            # first tile always holds key 0, so m_new is finite from there on
            P = np.exp(S - m_new[:, None])
            alpha = np.exp(m - m_new)
            l = alpha * l + P.sum(axis=1)
            o = alpha[:, None] * o + P @ V[c]
            m = m_new
        O[r] = o / l[:, None]
        L[r] = m + np.log(l)
    return O, L


def multi_head(x, W, heads, **kw):
    """x (T, D); W dict with wq, wk, wv, wo of shape (D, D)"""
    q, k, v = x @ W["wq"], x @ W["wk"], x @ W["wv"]
    dh = x.shape[1] // heads
    outs = []
    for h in range(heads):
        s = slice(h * dh, (h + 1) * dh)
        outs.append(flash_forward(q[:, s], k[:, s], v[:, s], **kw)[0])
    return np.hstack(outs) @ W["wo"]


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    q, k, v = rng.normal(size=(3, 10, 8))
    print(np.abs(flash_forward(q, k, v)[0] - naive(q, k, v)).max())
