"""Streaming linear attention with exponential forgetting, NumPy.

For step i and one head

    out_i = sum_{j<=i} g^(i-j) phi(q_i).phi(k_j) v_j
            ---------------------------------------
            sum_{j<=i} g^(i-j) phi(q_i).phi(k_j)

with phi(x) = elu(x) + 1 and a decay g of the head.  The sums are kept as a
matrix S [d, dv] and a vector z [d] per head, so memory does not grow with the
stream.  Used on the wearable for step-wise gesture scoring.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def default_decays(heads, lo=0.8, hi=0.99):
    return 1.0 - np.exp(np.linspace(np.log(1 - lo), np.log(1 - hi), heads))


class ForgettingAttention:
    def __init__(self, heads, dim, dim_v=None, decays=None, eps=1e-9):
        self.h, self.d, self.dv = heads, dim, dim_v or dim
        self.g = default_decays(heads) if decays is None else np.asarray(decays, float)
        self.eps = eps
        self.clear()

    def clear(self):
        self.S = np.zeros((self.h, self.d, self.dv))
        self.z = np.zeros((self.h, self.d))
        self.t = 0

    def push(self, q, k, v):
        """One step: q, k [H, d], v [H, dv] -> [H, dv]."""
        fq, fk = phi(np.asarray(q, float)), phi(np.asarray(k, float))
        self.S = self.g[:, None, None] * self.S + fk[:, :, None] * v[:, None, :]
        self.z = self.z + fk
        self.t += 1
        num = np.einsum("hd,hde->he", fq, self.S)
        den = np.einsum("hd,hd->h", fq, self.z)
        return num / (den[:, None] + self.eps)

    def run(self, q, k, v):
        """Whole sequence [T, H, d]; continues from the present state."""
        return np.stack([self.push(*step) for step in zip(q, k, v)])


class GestureScorer:
    """Projects IMU samples, keeps the state, emits class logits each sample."""

    def __init__(self, channels=6, heads=2, dim=8, classes=5, seed=0):
        g = np.random.default_rng(seed)
        w = heads * dim
        self.P = {n: g.normal(size=(channels, w)) / np.sqrt(channels) for n in "qkv"}
        self.U = g.normal(size=(w, classes)) / np.sqrt(w)
        self.att = ForgettingAttention(heads, dim)

    def __call__(self, sample):
        q, k, v = ((sample @ self.P[n]).reshape(self.att.h, -1) for n in "qkv")
        return self.att.push(q, k, v).ravel() @ self.U

    def reset(self):
        self.att.clear()


def classify(scorer, clip):
    scorer.reset()
    logits = np.stack([scorer(s) for s in clip])
    return int(logits[len(clip) // 2 :].mean(0).argmax())


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    print(classify(GestureScorer(), rng.normal(size=(30, 6))))
