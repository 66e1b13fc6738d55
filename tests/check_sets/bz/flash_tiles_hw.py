"""CSE homework 4, part B: tiled ("flash") attention forward with an online softmax.

Never builds the T x S matrix.  For each tile of queries we walk over the tiles of keys and
keep a running maximum m, a running sum l and an un-normalised output o.  Returns the output
and the (natural) log-sum-exp of each row, which part C needs for the backward pass.

`causal=True` aligns the last query with the last key (decoding with a cache).
Rows that see no key give output 0 and lse = -inf.
"""
import numpy as np


def flash_forward(q, k, v, causal=False, tile_q=4, tile_k=4):
    """q [..., T, d], k [..., S, d], v [..., S, e] -> out [..., T, e], lse [..., T]"""
    T, d = q.shape[-2:]
    S = k.shape[-2]
    lead = q.shape[:-2]
    out = np.zeros(lead + (T, v.shape[-1]))
    lse = np.full(lead + (T,), -np.inf)

    for i0 in range(0, T, tile_q):
        qi = q[..., i0:i0 + tile_q, :] * d ** -0.5
        rows = np.arange(i0, i0 + qi.shape[-2])
        m = np.full(qi.shape[:-1], -np.inf)
        l = np.zeros(qi.shape[:-1])
        o = np.zeros(qi.shape[:-1] + (v.shape[-1],))

        for j0 in range(0, S, tile_k):
            kj = k[..., j0:j0 + tile_k, :]
            vj = v[..., j0:j0 + tile_k, :]
            if causal and j0 > rows[-1] + S - T:
                break                                   # whole tile lies in the future
            s = qi @ np.swapaxes(kj, -1, -2)
            if causal:
                cols = np.arange(j0, j0 + kj.shape[-2])
                s = np.where(cols[None, :] <= rows[:, None] + S - T, s, -np.inf)

            m_new = np.maximum(m, s.max(axis=-1))
            safe = np.where(np.isneginf(m_new), 0.0, m_new)
            p = np.exp(s - safe[..., None])
            corr = np.exp(m - safe)
            l = l * corr + p.sum(axis=-1)
            o = o * corr[..., None] + p @ vj
            m = m_new

        seen = l > 0
        den = np.where(seen, l, 1.0)
        out[..., i0:i0 + tile_q, :] = o / den[..., None]
        lse[..., i0:i0 + tile_q] = np.where(seen, m + np.log(den), -np.inf)
    return out, lse


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q, k, v = g.normal(size=(2, 6, 8)), g.normal(size=(2, 10, 8)), g.normal(size=(2, 10, 5))
    o, z = flash_forward(q, k, v, causal=True)
    print(o.shape, z[0])
