"""mytorch-style layers for the deep learning course: forward and backward by hand."""
import numpy as np


class Softmax:
    """softmax over the last axis"""

    def forward(self, Z):
        e = np.exp(Z - np.max(Z, axis=-1, keepdims=True))
        self.A = e / np.sum(e, axis=-1, keepdims=True)
        return self.A

    def backward(self, dLdA):
        return self.A * (dLdA - np.sum(dLdA * self.A, axis=-1, keepdims=True))


class Linear:
    def __init__(self, in_features, out_features):
        self.W = np.zeros((out_features, in_features))
        self.b = np.zeros(out_features)

    def init_weights(self, W, b):
        self.W, self.b = W, b

    def forward(self, A):
        self.A = A
        return A @ self.W.T + self.b

    def backward(self, dLdZ):
        flat_z = dLdZ.reshape(-1, dLdZ.shape[-1])
        flat_a = self.A.reshape(-1, self.A.shape[-1])
        self.dLdW = flat_z.T @ flat_a
        self.dLdb = flat_z.sum(axis=0)
        return dLdZ @ self.W


class MultiHeadAttention:
    """
    forward(query, key, value, key_padding_mask=None, attn_mask=None)

    query (N, L, E), key (N, S, E), value (N, S, E)
    key_padding_mask (N, S): True / 1 for positions to ignore
    attn_mask (L, S): True / 1 for positions to ignore
    backward(d_output) -> d_query, d_key, d_value
    """

    def __init__(self, embed_dim, num_heads):
        if embed_dim % num_heads != 0:
            raise ValueError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.d_k = embed_dim // num_heads
        self.eps = 1e10          # stands for infinity
        self.softmax = Softmax()
        self.q_proj = Linear(embed_dim, embed_dim)
        self.k_proj = Linear(embed_dim, embed_dim)
        self.v_proj = Linear(embed_dim, embed_dim)
        self.out_proj = Linear(embed_dim, embed_dim)

    def init_weights(self, Wq, bq, Wk, bk, Wv, bv, Wo, bo):
        self.q_proj.init_weights(Wq, bq)
        self.k_proj.init_weights(Wk, bk)
        self.v_proj.init_weights(Wv, bv)
        self.out_proj.init_weights(Wo, bo)

    def _split_heads(self, x):
        N, L, E = x.shape
        return x.reshape(N, L, self.num_heads, E // self.num_heads).transpose(0, 2, 1, 3)

    def _concat_heads(self, x):
        N, H, L, d = x.shape
        return x.transpose(0, 2, 1, 3).reshape(N, L, H * d)

    def _merge_masks(self, key_padding_mask, attn_mask, shape):
        merged = np.zeros(shape, dtype=bool)
        if key_padding_mask is not None:
            merged |= np.asarray(key_padding_mask, dtype=bool)[:, None, None, :]
        if attn_mask is not None:
            merged |= np.asarray(attn_mask, dtype=bool)[None, None]
        return merged

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        self.q = self._split_heads(self.q_proj.forward(query))
        self.k = self._split_heads(self.k_proj.forward(key))
        self.v = self._split_heads(self.v_proj.forward(value))

        scores = self.q @ self.k.swapaxes(-1, -2) / np.sqrt(self.d_k)
        self.mask = self._merge_masks(key_padding_mask, attn_mask, scores.shape)
        scores = scores - self.eps * self.mask
        self.attn = self.softmax.forward(scores)
        return self.out_proj.forward(self._concat_heads(self.attn @ self.v))

    def backward(self, d_output):
        d_heads = self._split_heads(self.out_proj.backward(d_output))
        d_attn = d_heads @ self.v.swapaxes(-1, -2)
        d_v = self.attn.swapaxes(-1, -2) @ d_heads
        d_scores = self.softmax.backward(d_attn) / np.sqrt(self.d_k)
        d_q = d_scores @ self.k
        d_k = d_scores.swapaxes(-1, -2) @ self.q
        d_query = self.q_proj.backward(self._concat_heads(d_q))
        d_key = self.k_proj.backward(self._concat_heads(d_k))
        d_value = self.v_proj.backward(self._concat_heads(d_v))
        return d_query, d_key, d_value


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    m = MultiHeadAttention(8, 2)
    m.init_weights(*[rng.normal(size=s) for _ in range(4) for s in ((8, 8), (8,))])
    q, kv = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
    out = m.forward(q, kv, kv)
    print(out.shape, [g.shape for g in m.backward(np.ones_like(out))])
