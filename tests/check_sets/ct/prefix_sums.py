"""Causal linear attention with running sums, float64 numpy reference.

Used to validate the FPGA kernel, so clarity over speed.
"""
import numpy as np


def phi(x):
    """Positive feature map elu(x) + 1."""
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def linear_attention(q, k, v, state=None, eps=1e-9):
    """
    q, k : (H, L, D)
    v    : (H, L, M)
    out[h, t] = sum_{s<=t} phi(q_t).phi(k_s) v_s / sum_{s<=t} phi(q_t).phi(k_s)

    No softmax and no 1/sqrt(D): the kernel is phi(q).phi(k) itself.
    `state` is (S, z) from an earlier call, S: (H, D, M), z: (H, D); passing it
    continues the sequence. Returns out (H, L, M) and the new state.
    """
    q = np.asarray(q, np.float64)
    k = np.asarray(k, np.float64)
    v = np.asarray(v, np.float64)
    H, L, D = q.shape
    M = v.shape[-1]
    if state is None:
        S = np.zeros((H, D, M))
        z = np.zeros((H, D))
    else:
        S, z = state[0].copy(), state[1].copy()
    fq, fk = phi(q), phi(k)
    out = np.empty((H, L, M))
    for t in range(L):
        # the token is added first: it may look at itself
        S += fk[:, t, :, None] * v[:, t, None, :]
        z += fk[:, t]
        num = np.einsum("hd,hdm->hm", fq[:, t], S)
        den = np.einsum("hd,hd->h", fq[:, t], z)
        out[:, t] = num / (den[:, None] + eps)
    return out, (S, z)


if __name__ == "__main__":
    r = np.random.default_rng(0)
    a, b, c = r.normal(size=(3, 2, 7, 4))
    full, _ = linear_attention(a, b, c)
    first, st = linear_attention(a[:, :3], b[:, :3], c[:, :3])
    rest, _ = linear_attention(a[:, 3:], b[:, 3:], c[:, 3:], st)
    print(np.abs(full - np.concatenate([first, rest], 1)).max())
