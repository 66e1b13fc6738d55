import numpy as np


class CachedSelfAttention:
    """Causal self attention for generation, keeps keys and values of past calls.

    Call it first with the prompt, x of shape (batch, prompt_len, d_model), then
    with one (or a few) new tokens at a time. Rows of a call see everything in
    the cache plus the rows up to themselves. reset() starts a new text.
    """

    def __init__(self, d_model, n_head, seed=0):
        rng = np.random.default_rng(seed)
        self.n_head = n_head
        self.d_head = d_model // n_head
        std = d_model ** -0.5
        self.Wqkv = rng.normal(0, std, (d_model, 3 * d_model))
        self.bqkv = np.zeros(3 * d_model)
        self.Wo = rng.normal(0, std, (d_model, d_model))
        self.bo = np.zeros(d_model)
        self.reset()

    def reset(self):
        self.k_cache = None
        self.v_cache = None

    def _heads(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.n_head, self.d_head).swapaxes(1, 2)

    def __call__(self, x):
        b, n, d = x.shape
        q, k, v = np.split(x @ self.Wqkv + self.bqkv, 3, axis=-1)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        if self.k_cache is not None:
            k = np.concatenate([self.k_cache, k], axis=2)
            v = np.concatenate([self.v_cache, v], axis=2)
        self.k_cache, self.v_cache = k, v

        total = k.shape[2]
        past = total - n
        s = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(self.d_head)
        visible = np.arange(total)[None, :] <= past + np.arange(n)[:, None]
        s = np.where(visible, s, -np.inf)
        s = s - s.max(-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(-1, keepdims=True)
        y = np.einsum("bhqk,bhkd->bqhd", p, v).reshape(b, n, d)
        return y @ self.Wo + self.bo
