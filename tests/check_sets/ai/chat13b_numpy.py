"""CPU fallback of the 13B chat model: 40 heads, ALiBi, fused W_pack. NumPy only.

The slopes are not stored in the checkpoint. The model was trained with the slopes of
the ALiBi authors' code (Press et al. 2022), for any number of heads.
"""
import numpy as np


class Config:
    def __init__(self, hidden_size=5120, num_heads=40, num_layers=40, vocab_size=64000, eps=1e-6):
        if hidden_size % num_heads:
            raise ValueError("hidden_size % num_heads != 0")
        self.hidden_size = hidden_size
        self.num_heads = num_heads
        self.num_layers = num_layers
        self.vocab_size = vocab_size
        self.eps = eps
        self.head_dim = hidden_size // num_heads


def alibi_slopes(n_heads):
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def alibi_bias(n_heads, n_query, n_key):
    """[n_heads, n_query, n_key]; the last query stands at the last key."""
    q_pos = np.arange(n_key - n_query, n_key)[:, None]
    k_pos = np.arange(n_key)[None, :]
    dist = (q_pos - k_pos).astype(np.float32)
    bias = -alibi_slopes(n_heads)[:, None, None] * dist
    return np.where(dist < 0, -np.inf, bias).astype(np.float32)


def stable_softmax(a):
    a = np.exp(a - np.amax(a, axis=-1, keepdims=True))
    return a / np.sum(a, axis=-1, keepdims=True)


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps)


class BaichuanAttention:
    def __init__(self, cfg, weights, layer):
        base = "model.layers.%d.self_attn." % layer
        self.cfg = cfg
        self.w_pack = weights[base + "W_pack.weight"]      # [3 * hidden, hidden]: q rows, k rows, v rows
        self.o_proj = weights[base + "o_proj.weight"]
        self.k_cache = None
        self.v_cache = None

    def reset(self):
        self.k_cache = self.v_cache = None

    def __call__(self, x):
        """x [batch, n, hidden]; older tokens come from the cache"""
        b, n, _ = x.shape
        c = self.cfg
        packed = x @ self.w_pack.T
        q, k, v = (p.reshape(b, n, c.num_heads, c.head_dim).transpose(0, 2, 1, 3) for p in np.split(packed, 3, -1))
        if self.k_cache is not None:
            k = np.concatenate((self.k_cache, k), axis=2)
            v = np.concatenate((self.v_cache, v), axis=2)
        self.k_cache, self.v_cache = k, v
        s = np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(c.head_dim)
        s = s + alibi_bias(c.num_heads, n, k.shape[2])
        ctx = np.einsum("bhqk,bhkd->bqhd", stable_softmax(s), v)
        return ctx.reshape(b, n, c.hidden_size) @ self.o_proj.T


class Layer:
    def __init__(self, cfg, weights, i):
        p = "model.layers.%d." % i
        self.attn = BaichuanAttention(cfg, weights, i)
        self.n1, self.n2 = weights[p + "input_layernorm.weight"], weights[p + "post_attention_layernorm.weight"]
        self.gate, self.up, self.down = (weights[p + "mlp.%s_proj.weight" % t] for t in ("gate", "up", "down"))
        self.eps = cfg.eps

    def __call__(self, x):
        x = x + self.attn(rms_norm(x, self.n1, self.eps))
        h = rms_norm(x, self.n2, self.eps)
        g = h @ self.gate.T
        return x + ((g / (1.0 + np.exp(-g))) * (h @ self.up.T)) @ self.down.T


class Chat13B:
    def __init__(self, cfg, weights):
        self.cfg = cfg
        self.embed = weights["model.embed_tokens.weight"]
        self.layers = [Layer(cfg, weights, i) for i in range(cfg.num_layers)]
        self.norm = weights["model.norm.weight"]
        self.head = weights["lm_head.weight"]

    def logits(self, ids):
        x = self.embed[ids]
        for layer in self.layers:
            x = layer(x)
        return rms_norm(x, self.norm, self.cfg.eps) @ self.head.T
