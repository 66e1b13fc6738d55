"""Spelling correction with a small T5 encoder, NumPy only (for the offline keyboard).

As in T5 the scores are NOT divided by sqrt(d_kv): the initialisation of the query matrix
carries the factor.  Positions come from a learned bias per head and distance bucket.
"""
import math
import numpy as np


def bucket_of(rel, n_buckets=32, max_dist=128):
    """Bidirectional buckets; rel = key position - query position."""
    half = n_buckets // 2
    out = np.where(rel > 0, half, 0)
    a = np.abs(rel)
    exact = half // 2
    far = exact + (np.log(np.maximum(a, 1) / exact) / math.log(max_dist / exact) * (half - exact)).astype(int)
    return out + np.where(a < exact, a, np.minimum(far, half - 1))


def rms_norm(x, g, eps=1e-6):
    return x * g / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


class T5SelfAttention:
    """sd: state dict with 'q','k','v' [D, H*dk], 'o' [H*dk, D], 'rel' [n_buckets, H]."""

    def __init__(self, sd, n_heads):
        self.sd, self.h = sd, n_heads

    def _split(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.h, -1).transpose(0, 2, 1, 3)

    def __call__(self, x, attention_mask=None):
        """x [B, T, D]; attention_mask [B, T], 1 = character, 0 = padding."""
        b, t, _ = x.shape
        q, k, v = (self._split(x @ self.sd[n]) for n in "qkv")
        scores = q @ k.transpose(0, 1, 3, 2)
        pos = np.arange(t)
        bias = self.sd["rel"][bucket_of(pos[None, :] - pos[:, None])]
        scores = scores + bias.transpose(2, 0, 1)[None]
        if attention_mask is not None:
            pad = attention_mask[:, None, None, :] == 0
            scores = np.where(pad, np.finfo(scores.dtype).min, scores)
        scores = scores - scores.max(-1, keepdims=True)
        p = np.exp(scores)
        p /= p.sum(-1, keepdims=True)
        y = (p @ v).transpose(0, 2, 1, 3).reshape(b, t, -1)
        return y @ self.sd["o"]


def make_sd(d, h, dk, seed=0):
    r = np.random.default_rng(seed)
    sd = {"q": r.normal(0, (d * dk) ** -0.5, (d, h * dk))}
    sd.update({n: r.normal(0, d ** -0.5, (d, h * dk)) for n in "kv"})
    sd["o"] = r.normal(0, (h * dk) ** -0.5, (h * dk, d))
    sd["rel"] = r.normal(0, 1, (32, h))
    return sd
