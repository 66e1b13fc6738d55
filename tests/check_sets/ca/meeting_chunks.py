"""Memory-lean attention for hour-long meeting recordings (numpy, inference).

Keys and values are visited in chunks with a running maximum and a running sum (Rabe &
Staats 2021; Milakov & Gimelshein 2018), so the T x T matrix never exists.  The result is
that of an ordinary softmax attention over all frames.
"""
import numpy as np


def _attend_chunked(q, k, v, chunk):
    """q [H, Tq, D], k/v [H, Tk, D] -> [H, Tq, D]"""
    heads, tq, dim = q.shape
    q = q / np.sqrt(dim)
    m = np.full((heads, tq, 1), -np.inf)
    total = np.zeros((heads, tq, 1))
    acc = np.zeros((heads, tq, v.shape[-1]))

    for start in range(0, k.shape[1], chunk):
        kc = k[:, start:start + chunk]
        vc = v[:, start:start + chunk]
        s = q @ kc.transpose(0, 2, 1)
        m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
        p = np.exp(s - m_new)
        shrink = np.exp(m - m_new)
        total = total * shrink + p.sum(axis=-1, keepdims=True)
        acc = acc + p @ vc
        m = m_new
    return acc / total


class MeetingSummaryLayer:
    def __init__(self, dim=24, heads=3, chunk=16, seed=0):
        rng = np.random.default_rng(seed)
        self.heads, self.chunk = heads, chunk
        self.wqkv = rng.normal(0, 1 / np.sqrt(dim), (3, dim, dim))
        self.wo = rng.normal(0, 1 / np.sqrt(dim), (dim, dim))
        self.gain = np.ones(dim)

    def _norm(self, x):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * self.gain

    def __call__(self, frames):
        # frames [T, dim]
        t, dim = frames.shape
        h = self._norm(frames)
        q, k, v = (
            (h @ w).reshape(t, self.heads, dim // self.heads).transpose(1, 0, 2)
            for w in self.wqkv
        )
        y = _attend_chunked(q, k, v, self.chunk)
        return frames + y.transpose(1, 0, 2).reshape(t, dim) @ self.wo


if __name__ == "__main__":
    x = np.random.default_rng(2).normal(size=(100, 24))
    print(MeetingSummaryLayer()(x).shape)
