"""FlashAttention-2 forward pass, tile by tile, to explain the algorithm in class.

    out, lse = flash_forward(q, k, v, causal=True)

Shapes [heads, len, dim]. With fewer queries than keys the causal mask is aligned
to the bottom right (the last query sees all the keys). ``lse`` is the natural
log-sum-exp of the scaled scores, to be used by the backward pass or to merge
splits with `merge`.
"""
import numpy as np


def flash_forward(q, k, v, causal=False, scale=None, br=4, bc=3):
    H, N, d = q.shape
    M = k.shape[1]
    assert v.shape[1] == M
    scale = d ** -0.5 if scale is None else scale
    out = np.zeros((H, N, v.shape[2]))
    lse = np.full((H, N), -np.inf)
    offset = M - N

    for i0 in range(0, N, br):
        i1 = min(i0 + br, N)
        qi = q[:, i0:i1] * scale
        m = np.full((H, i1 - i0), -np.inf)
        l = np.zeros((H, i1 - i0))
        acc = np.zeros((H, i1 - i0, v.shape[2]))

        for j0 in range(0, M, bc):
            j1 = min(j0 + bc, M)
            if causal and j0 > i1 - 1 + offset:
                break                       # tile is wholly in the future
            s = np.einsum("hid,hjd->hij", qi, k[:, j0:j1])
            if causal:
                rows = np.arange(i0, i1)[:, None] + offset
                cols = np.arange(j0, j1)[None, :]
                s = np.where(cols > rows, -np.inf, s)

            m_new = np.maximum(m, s.max(-1))
            ref = np.where(np.isneginf(m_new), 0.0, m_new)
            p = np.exp(s - ref[..., None])
            alpha = np.exp(m - ref)
            l = alpha * l + p.sum(-1)
            acc = alpha[..., None] * acc + np.einsum("hij,hjd->hid", p, v[:, j0:j1])
            m = m_new

        seen = l > 0
        safe = np.where(seen, l, 1.0)
        out[:, i0:i1] = acc / safe[..., None]
        lse[:, i0:i1] = np.where(seen, np.where(seen, m, 0.0) + np.log(safe), -np.inf)
    return out, lse


def merge(o1, lse1, o2, lse2):
    """Combine the results over two disjoint sets of keys."""
    top = np.maximum(lse1, lse2)
    top = np.where(np.isneginf(top), 0.0, top)
    w1, w2 = np.exp(lse1 - top), np.exp(lse2 - top)
    z = np.where(w1 + w2 > 0, w1 + w2, 1.0)
    out = (w1[..., None] * o1 + w2[..., None] * o2) / z[..., None]
    with np.errstate(divide="ignore"):
        return out, top + np.log(w1 + w2)


def split_kv_decode(q, k, v, splits=2):
    """Flash-decoding: one query, keys cut in `splits` parts and merged."""
    out = lse = None
    for ks, vs in zip(np.array_split(k, splits, 1), np.array_split(v, splits, 1)):
        o, s = flash_forward(q, ks, vs)
        out, lse = (o, s) if out is None else merge(out, lse, o, s)
    return out


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q, k, v = (g.standard_normal((2, n, 8)) for n in (5, 11, 11))
    o, s = flash_forward(q, k, v, causal=True)
    print(o.shape, s[0].round(3))
