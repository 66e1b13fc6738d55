# ---
# jupyter:
#   jupytext: {text_representation: {format_name: percent}}
# ---
# %% [markdown]
# # Week 5 - flash attention by hand
# We never hold the whole score matrix. For a tile of queries we walk over the tiles of
# keys and carry three things: the running maximum `m`, the running sum `l` and the
# unnormalised output `o`.
# %%
import numpy as np


def w5(q, k, v, bq=3, bk=4, causal=False, return_lse=False):
    """Exact attention in tiles.

    q (Lq, d), k (Lk, d), v (Lk, e); logits q.k/sqrt(d). Tiles need not divide the lengths.
    causal: the last query is aligned with the last key (Lk >= Lq), so that query i sees
    the keys j <= i + Lk - Lq.
    Returns o (Lq, e) and, if return_lse, the natural log-sum-exp of the scaled
    logits of each row, (Lq,).
    """
    Lq, d = q.shape
    Lk, e = v.shape
    off = Lk - Lq
    O = np.empty((Lq, e))
    LSE = np.empty(Lq)
    for i0 in range(0, Lq, bq):
        qi = q[i0:i0 + bq] / np.sqrt(d)
        r = len(qi)
        m = np.full(r, -np.inf)
        l = np.zeros(r)
        o = np.zeros((r, e))
        for j0 in range(0, Lk, bk):
            if causal and j0 > i0 + r - 1 + off:
                break                              # the whole tile lies in the future
            s = qi @ k[j0:j0 + bk].T
            if causal:
                row = i0 + np.arange(r)[:, None]
                col = j0 + np.arange(s.shape[1])[None]
                s = np.where(col <= row + off, s, -np.inf)
            m_new = np.maximum(m, s.max(1))        # finite: key 0 is seen by all
            c = np.exp(m - m_new)
            p = np.exp(s - m_new[:, None])
            l = c * l + p.sum(1)
            o = c[:, None] * o + p @ v[j0:j0 + bk]
            m = m_new
        O[i0:i0 + bq] = o / l[:, None]
        LSE[i0:i0 + bq] = m + np.log(l)
    return (O, LSE) if return_lse else O


# %%
if __name__ == "__main__":
    g = np.random.default_rng(5)
    a, b, c = g.normal(size=(7, 6)), g.normal(size=(10, 6)), g.normal(size=(10, 2))
    print(w5(a, b, c, causal=True).round(3))
