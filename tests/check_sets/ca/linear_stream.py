"""Constant-memory attention for the always-on keyword spotter.

Causal linear attention (Katharopoulos et al., 2020) with phi(x) = elu(x) + 1:

    y_t = phi(q_t) S_t / (phi(q_t) z_t),   S_t = sum_{s<=t} phi(k_s) v_s^T,
                                           z_t = sum_{s<=t} phi(k_s)

There is no softmax and no 1/sqrt(d).  The state (S, z) lives in the object, so audio may
come in pieces of any length.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class LinearAttentionStream:

    def __init__(self, dim=16, heads=2, seed=0):
        rng = np.random.RandomState(seed)
        self.heads = heads
        self.qkv = rng.randn(dim, 3, heads, dim // heads) / np.sqrt(dim)
        self.out = rng.randn(heads, dim // heads, dim) / np.sqrt(dim)
        self.reset()

    def reset(self):
        d = self.qkv.shape[-1]
        self.S = np.zeros((self.heads, d, d))
        self.z = np.zeros((self.heads, d))

    def push_frame(self, x):
        q, k, v = np.einsum("c,cihd->ihd", x, self.qkv)
        q, k = phi(q), phi(k)
        self.S = self.S + k[:, :, None] * v[:, None, :]
        self.z = self.z + k
        num = np.einsum("hd,hde->he", q, self.S)
        den = np.einsum("hd,hd->h", q, self.z)
        return np.einsum("he,hec->c", num / den[:, None], self.out)

    def push(self, frames):
        """frames: [n, dim] -> [n, dim]"""
        q, k, v = np.einsum("nc,cihd->inhd", frames, self.qkv)
        q, k = phi(q), phi(k)
        S = self.S + np.cumsum(k[..., :, None] * v[..., None, :], axis=0)
        z = self.z + np.cumsum(k, axis=0)
        if len(frames):
            self.S, self.z = S[-1], z[-1]
        num = np.einsum("nhd,nhde->nhe", q, S)
        den = np.einsum("nhd,nhd->nh", q, z)
        return np.einsum("nhe,hec->nc", num / den[..., None], self.out)


if __name__ == "__main__":
    x = np.random.RandomState(1).randn(12, 16)
    s = LinearAttentionStream()
    a = s.push(x)
    s.reset()
    b = np.stack([s.push_frame(f) for f in x])
    print(np.allclose(a, b))
