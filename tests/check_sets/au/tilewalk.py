"""A walk through FlashAttention-2's forward pass, tile by tile, in numpy (reading group notes).

Shapes are [heads, tokens, dim]. Also returns the log-sum-exp that the backward pass needs,
and the backward pass itself, with recomputation.
"""
import numpy as np


def tiles(n, size):
    for a in range(0, n, size):
        yield a, min(a + size, n)


def visible(r0, r1, c0, c1, shift):
    """Query row i may see key column j when j <= i + shift (shift = Lk - Lq)."""
    return np.arange(c0, c1)[None, :] <= np.arange(r0, r1)[:, None] + shift


def flash_forward(Q, K, V, causal=False, Br=4, Bc=4):
    """Needs Lk >= Lq when causal."""
    H, Lq, d = Q.shape
    Lk = K.shape[1]
    shift = Lk - Lq
    if causal and shift < 0:
        raise ValueError("causal needs at least as many keys as queries")
    tau = d ** -0.5
    O = np.zeros((H, Lq, V.shape[2]))
    LSE = np.zeros((H, Lq))
    for r0, r1 in tiles(Lq, Br):
        q = Q[:, r0:r1] * tau
        m = np.full((H, r1 - r0, 1), -np.inf)
        l = np.zeros((H, r1 - r0, 1))
        acc = np.zeros((H, r1 - r0, V.shape[2]))
        for c0, c1 in tiles(Lk, Bc):
            if causal and c0 > r1 - 1 + shift:
                break                                   # the whole tile lies in the future
            s = q @ K[:, c0:c1].transpose(0, 2, 1)
            if causal and c1 - 1 > r0 + shift:
                s = np.where(visible(r0, r1, c0, c1, shift), s, -np.inf)
            m_new = np.maximum(m, s.max(-1, keepdims=True))
            # every row saw key 0 in the first tile, so m_new is finite from the start
            p = np.exp(s - m_new)
            alpha = np.exp(m - m_new)
            l = alpha * l + p.sum(-1, keepdims=True)
            acc = alpha * acc + p @ V[:, c0:c1]
            m = m_new
        O[:, r0:r1] = acc / l
        LSE[:, r0:r1] = (m + np.log(l))[..., 0]
    return O, LSE


def flash_backward(Q, K, V, O, LSE, dO, causal=False, Bc=4):
    d = Q.shape[-1]
    tau = d ** -0.5
    shift = K.shape[1] - Q.shape[1]
    dQ, dK, dV = np.zeros_like(Q), np.zeros_like(K), np.zeros_like(V)
    delta = (dO * O).sum(-1, keepdims=True)
    for c0, c1 in tiles(K.shape[1], Bc):
        s = Q @ K[:, c0:c1].transpose(0, 2, 1) * tau
        if causal:
            s = np.where(visible(0, Q.shape[1], c0, c1, shift), s, -np.inf)
        p = np.exp(s - LSE[..., None])
        dV[:, c0:c1] = p.transpose(0, 2, 1) @ dO
        ds = p * (dO @ V[:, c0:c1].transpose(0, 2, 1) - delta)
        dQ += ds @ K[:, c0:c1] * tau
        dK[:, c0:c1] = ds.transpose(0, 2, 1) @ Q * tau
    return dQ, dK, dV


def bytes_moved(Lq, Lk, d, Br, itemsize=2):
    """HBM traffic of the forward pass for one head: K and V are read once per row tile."""
    row_tiles = -(-Lq // Br)
    return itemsize * (2 * Lq * d + row_tiles * 2 * Lk * d)
