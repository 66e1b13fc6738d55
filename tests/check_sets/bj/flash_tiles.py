"""NumPy twin of our Triton forward kernel (tiles, online softmax).

Shapes: q [B, H, M, D], k/v [B, H, N, D].  ``causal`` is aligned to the bottom
right corner: query row i sees the keys j <= i + N - M.  ``bias`` is anything
that broadcasts to [B, H, M, N] and is added after scaling.  Rows without any
visible key return zeros and lse = -inf.
"""
import numpy as np


def _tiles(n, size):
    for a in range(0, n, size):
        yield a, min(n, a + size)


def forward(q, k, v, causal=False, bias=None, scale=None, block_m=16, block_n=16):
    b, h, m, d = q.shape
    n = k.shape[2]
    assert v.shape[2] == n, "k and v disagree"
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    if bias is not None:
        bias = np.broadcast_to(bias, (b, h, m, n))
    out = np.zeros((b, h, m, v.shape[-1]), np.float32)
    lse = np.full((b, h, m), -np.inf, np.float32)
    shift = n - m

    for m0, m1 in _tiles(m, block_m):
        qi = q[:, :, m0:m1].astype(np.float32) * np.float32(scale)
        acc = np.zeros(qi.shape[:3] + (v.shape[-1],), np.float32)
        top = np.full(qi.shape[:3], -np.inf, np.float32)
        den = np.zeros(qi.shape[:3], np.float32)
        for n0, n1 in _tiles(n, block_n):
            if causal and n0 > m1 - 1 + shift:
                break
            s = qi @ k[:, :, n0:n1].astype(np.float32).swapaxes(-1, -2)
            if bias is not None:
                s = s + bias[:, :, m0:m1, n0:n1]
            if causal:
                rows = np.arange(m0, m1)[:, None] + shift
                s = np.where(np.arange(n0, n1)[None] <= rows, s, -np.inf)
            new = np.maximum(top, s.max(-1))
            safe = np.where(np.isfinite(new), new, 0.0)
            p = np.exp(s - safe[..., None])
            alpha = np.exp(top - safe)
            den = den * alpha + p.sum(-1)
            acc = acc * alpha[..., None] + p @ v[:, :, n0:n1].astype(np.float32)
            top = new
        ok = den > 0
        div = np.where(ok, den, 1.0)
        out[:, :, m0:m1] = acc / div[..., None]
        lse[:, :, m0:m1] = np.where(ok, top + np.log(div), -np.inf)
    return out, lse


def combine(parts):
    """Merge [(out, lse), ...] that were computed on disjoint key ranges."""
    lses = np.stack([p[1] for p in parts])
    top = lses.max(0)
    safe = np.where(np.isfinite(top), top, 0.0)
    w = np.exp(lses - safe)
    tot = w.sum(0)
    w = w / np.where(tot > 0, tot, 1.0)
    return sum(wi[..., None] * p[0] for wi, p in zip(w, parts))


def flops(b, h, m, n, d, causal):
    f = 4 * b * h * m * n * d
    return f // 2 if causal else f


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q, k, v = (g.standard_normal((1, 2, 40, 8)).astype(np.float32) for _ in range(3))
    whole, _ = forward(q, k, v)
    halves = [forward(q, k[:, :, a:c], v[:, :, a:c]) for a, c in ((0, 24), (24, 40))]
    print(np.abs(whole - combine(halves)).max())
