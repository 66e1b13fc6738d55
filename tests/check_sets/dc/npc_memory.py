import numpy as np


class NPCMemory:
    """Grouped-query decoder step for the talk of game characters, with a growing cache.

    n_q query heads share n_kv key/value heads: query heads 0..r-1 use kv head 0, the next r
    use kv head 1 and so on (r = n_q / n_kv).
    """

    def __init__(self, width, n_q=4, n_kv=2, seed=0):
        g = np.random.default_rng(seed)
        self.n_q, self.n_kv, self.d = n_q, n_kv, width // n_q
        mk = lambda o: g.normal(size=(width, o)) / np.sqrt(width)
        self.Wq, self.Wo = mk(width), mk(width)
        self.Wk, self.Wv = mk(n_kv * self.d), mk(n_kv * self.d)
        self.K = self.V = None

    def forget(self):
        self.K = self.V = None

    def __call__(self, x):
        """x (B, T, width): the T newest words. Returns (B, T, width)."""
        B, T, _ = x.shape
        q = (x @ self.Wq).reshape(B, T, self.n_q, self.d)
        k = (x @ self.Wk).reshape(B, T, self.n_kv, self.d)
        v = (x @ self.Wv).reshape(B, T, self.n_kv, self.d)
        if self.K is not None:
            k = np.concatenate([self.K, k], axis=1)
            v = np.concatenate([self.V, v], axis=1)
        self.K, self.V = k, v
        r = self.n_q // self.n_kv
        k, v = np.repeat(k, r, axis=2), np.repeat(v, r, axis=2)
        S = k.shape[1]
        s = np.einsum("bthd,bshd->bhts", q, k) / self.d ** 0.5
        ok = np.arange(S)[None, :] <= np.arange(S - T, S)[:, None]
        s = np.where(ok, s, -np.inf)
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        return np.einsum("bhts,bshd->bthd", s, v).reshape(B, T, -1) @ self.Wo
