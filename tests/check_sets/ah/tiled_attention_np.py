"""Reading notes on FlashAttention: the tiled forward pass written out in numpy.

Arrays are (heads, length, head_dim). Causal means key j <= query i + (Lk - Lq), so a short
query block at the end of a long context lines up with the end.
"""
import numpy as np


def tiles(n, size):
    for start in range(0, n, size):
        yield start, min(start + size, n)


def flash_forward(q, k, v, causal=False, Br=16, Bc=16, scale=None):
    """returns (out, logsumexp), natural log"""
    H, Lq, d = q.shape
    Lk, dv = v.shape[1:]
    if k.shape[1] != Lk:
        raise ValueError("k and v differ in length")
    tau = d ** -0.5 if scale is None else scale
    shift = Lk - Lq
    O = np.zeros((H, Lq, dv), dtype=np.float64)
    LSE = np.full((H, Lq), -np.inf)
    for i0, i1 in tiles(Lq, Br):
        Qi = q[:, i0:i1].astype(np.float64) * tau
        m = np.full((H, i1 - i0, 1), -np.inf)
        l = np.zeros((H, i1 - i0, 1))
        acc = np.zeros((H, i1 - i0, dv))
        for j0, j1 in tiles(Lk, Bc):
            if causal and j0 > i1 - 1 + shift:
                break
            S = Qi @ k[:, j0:j1].astype(np.float64).transpose(0, 2, 1)
            if causal:
                rows = np.arange(i0, i1)[:, None] + shift
                S = np.where(np.arange(j0, j1)[None] <= rows, S, -np.inf)
            m_new = np.maximum(m, S.max(-1, keepdims=True))
            safe = np.where(np.isneginf(m_new), 0.0, m_new)
            P = np.exp(S - safe)
            alpha = np.exp(m - safe)
            l = alpha * l + P.sum(-1, keepdims=True)
            acc = alpha * acc + P @ v[:, j0:j1]
            m = m_new
        live = l > 0
        O[:, i0:i1] = np.where(live, acc / np.where(live, l, 1.0), 0.0)
        with np.errstate(divide="ignore"):
            LSE[:, i0:i1] = (m + np.log(l))[..., 0]
    return O.astype(q.dtype), LSE


def naive(q, k, v, causal=False):
    S = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    if causal:
        S = np.where(np.tri(q.shape[1], k.shape[1], k.shape[1] - q.shape[1], dtype=bool), S, -np.inf)
    P = np.exp(S - S.max(-1, keepdims=True))
    return P / P.sum(-1, keepdims=True) @ v


def hbm_traffic(N, d, M):
    """rough number of elements moved, section 3.2 of the paper"""
    Bc = max(1, M // (4 * d))
    Tc = -(-N // Bc)
    return {"standard": N * d * 4 + 4 * N * N, "flash": 2 * N * d + 2 * Tc * N * d}


if __name__ == "__main__":
    r = np.random.default_rng(0)
    a, b, c = (r.standard_normal((2, 50, 8)) for _ in range(3))
    for flag in (False, True):
        print(flag, np.abs(flash_forward(a, b, c, flag)[0] - naive(a, b, c, flag)).max())
    print(hbm_traffic(4096, 64, 100_000))
