import numpy as np


class T5SelfAttention:
    # As in T5, there is no 1/sqrt(d): the initialisation of q takes it up.

    def __init__(self, w, heads, buckets=8, max_distance=20, bidirectional=True):
        self.w, self.heads = w, heads
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional

    @classmethod
    def random(cls, d_model=16, heads=4, d_kv=5, seed=0, **kw):
        r = np.random.default_rng(seed)
        w = {n: r.normal(size=(d_model, heads * d_kv)) * 0.3 for n in "qkv"}
        w["o"] = r.normal(size=(heads * d_kv, d_model)) * 0.3
        w["rel"] = r.normal(size=(kw.get("buckets", 8), heads))
        return cls(w, heads, **kw)

    def bucket(self, rel):
        n, base = self.buckets, 0
        if self.bidirectional:
            n //= 2
            base = (rel > 0) * n
            rel = np.abs(rel)
        else:
            rel = -np.minimum(rel, 0)
        exact = n // 2
        far = exact + (np.log(np.maximum(rel, 1) / exact) / np.log(self.max_distance / exact) * (n - exact)).astype(int)
        return base + np.where(rel < exact, rel, np.minimum(far, n - 1))

    def __call__(self, x, keep=None):
        B, L, _ = x.shape
        q, k, v = ((x @ self.w[n]).reshape(B, L, self.heads, -1).transpose(0, 2, 1, 3) for n in "qkv")
        s = np.einsum("bhid,bhjd->bhij", q, k)
        pos = np.arange(L)
        s = s + self.w["rel"][self.bucket(pos[None, :] - pos[:, None])].transpose(2, 0, 1)
        if keep is not None:  # (B, L), True = token
            s = np.where(keep[:, None, None, :], s, -1e9)
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        y = np.einsum("bhij,bhjd->bihd", p, v)
        return y.reshape(B, L, -1) @ self.w["o"]
