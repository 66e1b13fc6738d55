import numpy as np


def softmax(z, axis):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


class SentenceEncoder:
    """x -> self-attention -> mean. Used on frozen GloVe vectors.

    emb: (batch, words, dim); lengths: (batch,) number of real words (>= 1)
    """

    def __init__(self, dim, hidden, seed=0):
        r = np.random.RandomState(seed)
        lim = np.sqrt(6.0 / (dim + hidden))
        self.Wq = r.uniform(-lim, lim, (dim, hidden))
        self.Wk = r.uniform(-lim, lim, (dim, hidden))
        self.Wv = r.uniform(-lim, lim, (dim, hidden))

    def attend(self, emb, lengths):
        """every word collects from the real words of its own tweet"""
        words = emb.shape[1]
        real = np.arange(words)[None, :] < np.asarray(lengths)[:, None]
        q = np.tensordot(emb, self.Wq, axes=1)
        k = np.tensordot(emb, self.Wk, axes=1)
        v = np.tensordot(emb, self.Wv, axes=1)
        s = np.einsum("bih,bjh->bij", q, k) / np.sqrt(q.shape[-1])
        s = np.where(real[:, None, :], s, -np.inf)
        a = softmax(s, axis=2)
        return np.einsum("bij,bih->bjh", a, v), real

    def __call__(self, emb, lengths):
        h, real = self.attend(emb, lengths)
        h = h * real[..., None]
        return h.sum(1) / real.sum(1, keepdims=True)
