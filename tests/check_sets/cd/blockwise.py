"""Block-wise exact attention in numpy.

Used by the offline evaluation of long transcripts, where a full score matrix
does not fit.  Keys and values are visited ``block`` at a time, with a running
maximum and a running denominator per query (the FlashAttention recurrence), so
that the result equals softmax(Q K^T / sqrt(d)) V.
"""
import numpy as np


def blockwise_attention(q, k, v, block=4, lengths=None):
    """
    q: (H, Lq, d)   k: (H, Lk, d)   v: (H, Lk, dv)
    lengths: optional (Lq,) number of keys (a prefix, at least one) query i sees
    returns (H, Lq, dv)
    """
    n_heads, n_q, dim = q.shape
    n_k = k.shape[1]
    q = q * dim ** -0.5

    run_max = np.full((n_heads, n_q), -np.inf)
    denom = np.zeros((n_heads, n_q))
    acc = np.zeros((n_heads, n_q, v.shape[-1]))

    for start in range(0, n_k, block):
        stop = min(start + block, n_k)
        s = q @ k[:, start:stop].transpose(0, 2, 1)
        if lengths is not None:
            hidden = np.arange(start, stop)[None, :] >= lengths[:, None]
            s = np.where(hidden[None], -np.inf, s)

        new_max = np.maximum(run_max, s.max(axis=-1))
        shrink = np.exp(run_max - new_max)
        p = np.exp(s - new_max[..., None])
        denom = denom * shrink + p.sum(axis=-1)
        acc = acc + p @ v[:, start:stop]
        run_max = new_max

    return acc / denom[..., None]


class TranscriptScorer:
    """Mean similarity of consecutive contextualised sentence vectors."""

    def __init__(self, wq, wk, wv, n_heads=2, block=4):
        self.wq, self.wk, self.wv = wq, wk, wv
        self.n_heads = n_heads
        self.block = block

    def _heads(self, x):
        return x.reshape(x.shape[0], self.n_heads, -1).transpose(1, 0, 2)

    def contextualise(self, sentences):
        q, k, v = (self._heads(sentences @ w) for w in (self.wq, self.wk, self.wv))
        causal = np.arange(1, len(sentences) + 1)
        out = blockwise_attention(q, k, v, self.block, lengths=causal)
        return out.transpose(1, 0, 2).reshape(len(sentences), -1)

    def coherence(self, sentences):
        c = self.contextualise(sentences)
        c = c / np.linalg.norm(c, axis=1, keepdims=True)
        return float((c[1:] * c[:-1]).sum(axis=1).mean())
