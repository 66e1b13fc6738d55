"""Pythia / GPT-NeoX in bare numpy, weights from the converted .npz (names as in the HF checkpoint)."""
import numpy as np


def ln(x, w, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * w + b


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def rotate(x, n_rot, base=10000):
    """Rotary on the first n_rot channels of [H, T, d], halves paired."""
    T = x.shape[-2]
    inv = base ** (-np.arange(0, n_rot, 2) / n_rot)
    ang = np.arange(T)[:, None] * inv[None]
    ang = np.concatenate([ang, ang], -1)
    r, rest = x[..., :n_rot], x[..., n_rot:]
    half = np.concatenate([-r[..., n_rot // 2:], r[..., : n_rot // 2]], -1)
    return np.concatenate([r * np.cos(ang) + half * np.sin(ang), rest], -1)


class Attention:
    """
    query_key_value.weight is [3 * hidden, hidden]. As in the NeoX code its output rows go head by
    head: q, k and v of head 0, then q, k and v of head 1, and so on ([heads, 3, head_dim]).
    """

    def __init__(self, weights, prefix, n_heads, rotary_pct=0.25):
        self.W = weights[prefix + "query_key_value.weight"]
        self.b = weights[prefix + "query_key_value.bias"]
        self.Wo = weights[prefix + "dense.weight"]
        self.bo = weights[prefix + "dense.bias"]
        self.h = n_heads
        self.n_rot = int(self.W.shape[1] // n_heads * rotary_pct)

    def __call__(self, x):
        """x [T, hidden], causal."""
        T, D = x.shape
        d = D // self.h
        qkv = (x @ self.W.T + self.b).reshape(T, 3, self.h, d)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        q, k = rotate(q, self.n_rot), rotate(k, self.n_rot)
        s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(d)
        s[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        y = np.einsum("hts,hsd->thd", softmax(s), v).reshape(T, D)
        return y @ self.Wo.T + self.bo


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


class Pythia:
    def __init__(self, weights, n_layers, n_heads):
        self.w, self.n = weights, n_layers
        self.att = [Attention(weights, f"gpt_neox.layers.{i}.attention.", n_heads) for i in range(n_layers)]

    def ln(self, x, name):
        return ln(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def mlp(self, x, p):
        w = self.w
        h = gelu(x @ w[p + "dense_h_to_4h.weight"].T + w[p + "dense_h_to_4h.bias"])
        return h @ w[p + "dense_4h_to_h.weight"].T + w[p + "dense_4h_to_h.bias"]

    def logits(self, ids):
        x = self.w["gpt_neox.embed_in.weight"][ids]
        for i, a in enumerate(self.att):
            p = f"gpt_neox.layers.{i}."
            # parallel residual
            x = x + a(self.ln(x, p + "input_layernorm")) + self.mlp(self.ln(x, p + "post_attention_layernorm"), p + "mlp.")
        return self.ln(x, "gpt_neox.final_layer_norm") @ self.w["embed_out.weight"].T
