import numpy as np


class HotelMatcher:
    """
    Scores a user's viewed hotels against the candidates of a search page.

    fit-free: the three matrices come from the training job as .npz.
    """

    def __init__(self, wq, wk, wv, n_heads):
        self.wq, self.wk, self.wv = wq, wk, wv
        self.n_heads = n_heads

    @classmethod
    def random(cls, dim, n_heads, seed=0):
        r = np.random.RandomState(seed)
        return cls(*(r.randn(dim, dim) / dim ** .5 for _ in range(3)), n_heads)

    def _split(self, x):
        b, n, d = x.shape
        return np.moveaxis(x.reshape(b, n, self.n_heads, d // self.n_heads), 2, 1)

    def profile(self, candidates, viewed, seen):
        """
        candidates  b x c x d
        viewed      b x v x d
        seen        b x v, truthy where a view took place. Users without any view
                    get the zero profile.

        returns b x c x d
        """
        q = self._split(candidates @ self.wq)
        k = self._split(viewed @ self.wk)
        v = self._split(viewed @ self.wv)
        logits = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(q.shape[-1])

        ok = np.asarray(seen, dtype=bool)[:, None, None, :]
        logits = np.where(ok, logits, -np.inf)
        top = logits.max(axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        w = np.exp(logits - top)
        z = w.sum(axis=-1, keepdims=True)
        w = np.divide(w, z, out=np.zeros_like(w), where=z > 0)

        out = np.moveaxis(w @ v, 1, 2)
        return out.reshape(candidates.shape)

    def rank(self, candidates, viewed, seen):
        p = self.profile(candidates, viewed, seen)
        return np.argsort(-(p * candidates).sum(-1), axis=-1)
