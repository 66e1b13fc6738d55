import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


class PatchTSTForecaster:
    """Channel-independent patch transformer, inference only.

    forward(x): x (batch, seq_len, n_vars) -> (batch, pred_len, n_vars)
    """

    def __init__(self, seq_len=32, pred_len=8, patch_len=8, stride=4, d_model=16, n_heads=4, n_layers=2, seed=3):
        self.patch_len, self.stride, self.n_heads, self.d_model = patch_len, stride, n_heads, d_model
        self.n_patches = (seq_len - patch_len) // stride + 1
        r = np.random.default_rng(seed)
        lin = lambda i, o: r.normal(0, i ** -0.5, (i, o))
        self.W_P, self.W_pos = lin(patch_len, d_model), r.normal(0, .02, (self.n_patches, d_model))
        self.layers = [dict(Wq=lin(d_model, d_model), Wk=lin(d_model, d_model), Wv=lin(d_model, d_model),
                            Wo=lin(d_model, d_model), W1=lin(d_model, 2 * d_model), W2=lin(2 * d_model, d_model))
                       for _ in range(n_layers)]
        self.head = lin(self.n_patches * d_model, pred_len)

    @staticmethod
    def _ln(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def _mha(self, x, p):
        bs, n, d = x.shape
        dk = d // self.n_heads
        q, k, v = [(x @ p[w]).reshape(bs, n, self.n_heads, dk).swapaxes(1, 2) for w in ("Wq", "Wk", "Wv")]
        s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(dk)
        s -= s.max(-1, keepdims=True)
        a = np.exp(s)
        a /= a.sum(-1, keepdims=True)
        o = np.einsum("bhij,bhjd->bihd", a, v).reshape(bs, n, d)
        return o @ p["Wo"]

    def forward(self, x):
        mean, std = x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + 1e-5)   # RevIN
        z = ((x - mean) / std).transpose(0, 2, 1)
        b, c, _ = z.shape
        z = sliding_window_view(z, self.patch_len, axis=2)[:, :, ::self.stride]
        z = z.reshape(b * c, self.n_patches, self.patch_len) @ self.W_P + self.W_pos
        for p in self.layers:
            z = self._ln(z + self._mha(z, p))
            z = self._ln(z + np.maximum(z @ p["W1"], 0) @ p["W2"])
        y = z.reshape(b, c, -1) @ self.head
        return y.transpose(0, 2, 1) * std + mean

    __call__ = forward
