"""Keyword spotting: query-by-example with additive attention, forward pass in NumPy.

  1. MFCC frames get the sinusoidal code of "Attention Is All You Need":
         PE(t, 2i) = sin(t / 10000^(2i/d)),  PE(t, 2i+1) = cos(t / 10000^(2i/d))
  2. each query vector (an enrolled keyword) attends to the frames, Bahdanau score
         e(n, t) = v . tanh(W_q q_n + W_k x_t),   a = softmax_t(e),   c_n = sum_t a(n, t) x_t
  3. detection score = cosine(q_n P, c_n)

Kaynak: laboratuvar içi not, 2021.
"""
import numpy as np


def positional_code(length, dim):
    table = np.zeros((length, dim))
    t = np.arange(length)
    for i in range(0, dim, 2):
        angle = t / 10000 ** (2 * i / dim)
        table[:, i] = np.sin(angle)
        table[:, i + 1] = np.cos(angle)
    return table


def additive_attention(queries, frames, n_frames, w):
    """queries (N, Dq), frames (B, T, D), n_frames (B,) -> context (B, N, D), weights (B, N, T)"""
    pq = queries @ w["W_q"]                                   # N, A
    pk = frames @ w["W_k"]                                    # B, T, A
    e = (pq[None, :, None, :] + pk[:, None, :, :]) @ w["v"]   # B, N, T
    silent = np.arange(frames.shape[1])[None, :] >= n_frames[:, None]
    e = np.where(silent[:, None, :], -np.inf, e)
    a = np.exp(e - e.max(axis=-1, keepdims=True))
    a = a / a.sum(axis=-1, keepdims=True)
    return a @ frames, a


class KeywordSpotter:
    def __init__(self, weights, threshold=0.5):
        self.w = weights
        self.threshold = threshold

    def scores(self, queries, mfcc, n_frames):
        x = mfcc + positional_code(mfcc.shape[1], mfcc.shape[2])[None]
        ctx, _ = additive_attention(queries, x, n_frames, self.w)
        ref = (queries @ self.w["P"])[None]
        num = (ref * ctx).sum(-1)
        return num / (np.linalg.norm(ref, axis=-1) * np.linalg.norm(ctx, axis=-1) + 1e-9)

    def detect(self, queries, mfcc, n_frames):
        return self.scores(queries, mfcc, n_frames) > self.threshold


def init_weights(d_query, d_frame, d_att, seed=0):
    r = np.random.default_rng(seed)
    return {"W_q": r.normal(size=(d_query, d_att)), "W_k": r.normal(size=(d_frame, d_att)),
            "v": r.normal(size=d_att), "P": r.normal(size=(d_query, d_frame))}


if __name__ == "__main__":
    ks = KeywordSpotter(init_weights(6, 8, 5))
    g = np.random.default_rng(1)
    print(ks.scores(g.normal(size=(3, 6)), g.normal(size=(2, 10, 8)), np.array([10, 7])))
