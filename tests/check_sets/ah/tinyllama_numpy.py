"""Run a TinyLlama checkpoint with numpy. Weights: dict with HuggingFace names (out_features x in_features).

Grouped-query attention as in the HF model: num_attention_heads // num_key_value_heads consecutive
query heads read one key/value head.
"""
import numpy as np

CONFIG = dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
              intermediate_size=64, vocab_size=48, rms_norm_eps=1e-5, rope_theta=10000.0)


def silu(x):
    return x / (1.0 + np.exp(-x))


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def rmsnorm(x, w, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


class KVCache:
    def __init__(self, n_layers):
        self.k = [None] * n_layers
        self.v = [None] * n_layers

    def __len__(self):
        return 0 if self.k[0] is None else self.k[0].shape[1]

    def append(self, layer, k, v):
        if self.k[layer] is not None:
            k = np.concatenate([self.k[layer], k], axis=1)
            v = np.concatenate([self.v[layer], v], axis=1)
        self.k[layer], self.v[layer] = k, v
        return k, v


class LlamaNumpy:
    def __init__(self, weights, cfg):
        self.w, self.cfg = weights, cfg
        self.n_h, self.n_kv = cfg["num_attention_heads"], cfg["num_key_value_heads"]
        self.hd = cfg["hidden_size"] // self.n_h

    def rope(self, x, pos):
        inv = 1.0 / self.cfg["rope_theta"] ** (np.arange(0, self.hd, 2) / self.hd)
        ang = np.outer(pos, inv)
        ang = np.concatenate([ang, ang], axis=-1)[None]
        return x * np.cos(ang) + rotate_half(x) * np.sin(ang)

    def attn(self, i, x, pos, cache):
        pre = f"model.layers.{i}.self_attn."
        T = x.shape[0]
        q = (x @ self.w[pre + "q_proj.weight"].T).reshape(T, self.n_h, self.hd).transpose(1, 0, 2)
        k = (x @ self.w[pre + "k_proj.weight"].T).reshape(T, self.n_kv, self.hd).transpose(1, 0, 2)
        v = (x @ self.w[pre + "v_proj.weight"].T).reshape(T, self.n_kv, self.hd).transpose(1, 0, 2)
        q, k = self.rope(q, pos), self.rope(k, pos)
        k, v = cache.append(i, k, v)
        n_rep = self.n_h // self.n_kv
        k = np.concatenate([k] * n_rep, axis=0)
        v = np.concatenate([v] * n_rep, axis=0)
        s = q @ k.transpose(0, 2, 1) / np.sqrt(self.hd)
        s = np.where(np.arange(k.shape[1])[None, :] <= pos[:, None], s, -np.inf)
        o = (softmax(s) @ v).transpose(1, 0, 2).reshape(T, -1)
        return o @ self.w[pre + "o_proj.weight"].T

    def mlp(self, i, x):
        pre = f"model.layers.{i}.mlp."
        g = silu(x @ self.w[pre + "gate_proj.weight"].T)
        return (g * (x @ self.w[pre + "up_proj.weight"].T)) @ self.w[pre + "down_proj.weight"].T

    def __call__(self, ids, cache):
        eps = self.cfg["rms_norm_eps"]
        pos = len(cache) + np.arange(len(ids))
        x = self.w["model.embed_tokens.weight"][ids]
        for i in range(self.cfg["num_hidden_layers"]):
            pre = f"model.layers.{i}."
            x = x + self.attn(i, rmsnorm(x, self.w[pre + "input_layernorm.weight"], eps), pos, cache)
            x = x + self.mlp(i, rmsnorm(x, self.w[pre + "post_attention_layernorm.weight"], eps))
        return rmsnorm(x, self.w["model.norm.weight"], eps) @ self.w["lm_head.weight"].T


def fake_weights(cfg, seed=0):
    r = np.random.default_rng(seed)
    m = lambda o, i: r.standard_normal((o, i)) * i ** -0.5
    D, F = cfg["hidden_size"], cfg["intermediate_size"]
    kv = D // cfg["num_attention_heads"] * cfg["num_key_value_heads"]
    w = {"model.embed_tokens.weight": r.standard_normal((cfg["vocab_size"], D)), "model.norm.weight": np.ones(D),
         "lm_head.weight": m(cfg["vocab_size"], D)}
    for i in range(cfg["num_hidden_layers"]):
        p = f"model.layers.{i}."
        for n, o in (("q", D), ("k", kv), ("v", kv), ("o", D)):
            w[p + f"self_attn.{n}_proj.weight"] = m(o, D)
        w[p + "mlp.gate_proj.weight"], w[p + "mlp.up_proj.weight"] = m(F, D), m(F, D)
        w[p + "mlp.down_proj.weight"] = m(D, F)
        w[p + "input_layernorm.weight"] = w[p + "post_attention_layernorm.weight"] = np.ones(D)
    return w


if __name__ == "__main__":
    net, c = LlamaNumpy(fake_weights(CONFIG), CONFIG), KVCache(CONFIG["num_hidden_layers"])
    tok = int(net([1, 7, 9], c)[-1].argmax())
    for _ in range(6):
        print(tok, end=" ")
        tok = int(net([tok], c)[-1].argmax())
