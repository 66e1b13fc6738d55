import numpy as np


def softmax(x):
    z = np.exp(x - x.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


class LuongAttention:
    """Global attention, "general" score (Luong et al. 2015).

        a_t(s) = softmax_s(h_t^T W_a h_s)  over the words s of the source
        h~_t   = tanh(W_c [c_t ; h_t])

    h_t: (batch, tgt, n)   h_s: (batch, src, n)   src_mask: (batch, src), 1 for words, 0 for padding, which is
    left out of the softmax.  Returns h~ (batch, tgt, n) and a (batch, tgt, src).
    """

    def __init__(self, n=6, seed=7):
        rng = np.random.RandomState(seed)
        self.W_a = rng.randn(n, n) / np.sqrt(n)
        self.W_c = rng.randn(2 * n, n) / np.sqrt(2 * n)

    def __call__(self, h_t, h_s, src_mask=None):
        score = h_t @ self.W_a @ h_s.transpose(0, 2, 1)
        if src_mask is not None:
            score = score * src_mask[:, None, :]
        a = softmax(score)
        c = a @ h_s
        return np.concatenate([c, h_t], axis=-1) @ self.W_c, a
