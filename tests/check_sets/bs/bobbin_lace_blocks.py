"""
bobbin_lace_blocks
==================
Longest-match search in digitised bobbin-lace prickings needs attention over 50k pins, which
does not fit as one matrix.  So: NumPy, tiles, running maximum and running sum.

>>> rng = np.random.default_rng(0)
>>> q, k, v = rng.normal(size=(3, 2, 10, 4))
>>> tiled_attention(q, k, v, causal=True).shape
(2, 10, 4)
"""
import numpy as np

TILE_Q, TILE_K = 4, 3


def _tiles(n, size):
    for start in range(0, n, size):
        yield slice(start, min(n, start + size))


def tiled_attention(q, k, v, *, keep=None, causal=False, scale=None, return_lse=False):
    """Exact softmax attention, tile by tile.

    q     (heads, m, d)
    k, v  (heads, n, d) / (heads, n, dv)
    keep  (n,) bool, True for pins that may be used
    causal: the m queries are the LAST m of the n pins, so query i sees keys 0 .. n - m + i
    A query that may use no pin at all yields zeros (and lse -inf).
    """
    q, k, v = (np.asarray(a, dtype=np.float64) for a in (q, k, v))
    heads, m, d = q.shape
    n = k.shape[1]
    scale = d ** -0.5 if scale is None else scale
    keep = np.ones(n, bool) if keep is None else np.asarray(keep, bool)
    out = np.zeros((heads, m, v.shape[-1]))
    lse = np.full((heads, m), -np.inf)

    for rows in _tiles(m, TILE_Q):
        qi = q[:, rows] * scale
        r = qi.shape[1]
        peak = np.full((heads, r, 1), -np.inf)
        total = np.zeros((heads, r, 1))
        acc = np.zeros((heads, r, v.shape[-1]))
        last = np.arange(rows.start, rows.stop) + (n - m)
        for cols in _tiles(n, TILE_K):
            if causal and cols.start > last[-1]:
                break
            ok = np.broadcast_to(keep[cols], (r, cols.stop - cols.start))
            if causal:
                ok = ok & (np.arange(cols.start, cols.stop) <= last[:, None])
            if not ok.any():
                continue
            s = np.where(ok, qi @ k[:, cols].swapaxes(-1, -2), -np.inf)
            new = np.maximum(peak, s.max(-1, keepdims=True))
            base = np.where(np.isinf(new), 0.0, new)          # rows still without a key
            fade = np.exp(peak - base)
            e = np.exp(s - base)
            total = total * fade + e.sum(-1, keepdims=True)
            acc = acc * fade + e @ v[:, cols]
            peak = new
        seen = total > 0
        out[:, rows] = np.where(seen, acc / np.where(seen, total, 1.0), 0.0)
        with np.errstate(divide="ignore"):
            lse[:, rows] = (np.where(np.isinf(peak), 0.0, peak) + np.log(total))[..., 0]
    return (out, lse) if return_lse else out


def embed_pins(pins, d, seed=0):
    """Random Fourier features of pin coordinates (x, y)."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(2, d // 2))
    z = pins @ w
    return np.concatenate([np.cos(z), np.sin(z)], -1)


def nearest_motif(pins, motif_ids, heads=2, d=8):
    """Soft vote of the motif ids of the pins that look alike."""
    x = np.stack([embed_pins(pins, d, seed) for seed in range(heads)])
    one_hot = np.eye(motif_ids.max() + 1)[motif_ids]
    votes = tiled_attention(x, x, np.broadcast_to(one_hot, (heads, *one_hot.shape)), scale=4.0)
    return votes.mean(0).argmax(-1)


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    print(nearest_motif(rng.random((25, 2)), rng.integers(0, 3, 25)))
