"""Run one GPT-NeoX attention layer from a raw checkpoint dict, no frameworks.

Checkpoint layout of `attention.query_key_value.weight` (Megatron order):
rows are grouped by head; inside a head come its query rows, its key rows, its value
rows:  [n_head, 3, d_head, d_model] flattened to [3 * d_model, d_model].
Rotary embedding on the first `rotary_pct` of the channels of each head, half-split.
"""
import numpy as np


class NeoxConfig:
    def __init__(self, d_model=32, n_head=4, rotary_pct=0.5, base=10000):
        self.d_model = d_model
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.rot = int(self.d_head * rotary_pct)
        self.base = base


def linear(x, w, b):
    return x @ w.T + b


def rotary(x, cfg, offset=0):
    """x [B, H, T, d_head]"""
    rot, rest = x[..., : cfg.rot], x[..., cfg.rot:]
    inv = cfg.base ** (-np.arange(0, cfg.rot, 2) / cfg.rot)
    ang = (np.arange(x.shape[2]) + offset)[:, None] * inv
    cos, sin = np.cos(ang), np.sin(ang)
    a, b = np.split(rot, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], axis=-1)


def stable_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class NeoxAttention:
    def __init__(self, cfg, state, prefix="attention."):
        self.cfg = cfg
        g = lambda n: np.asarray(state[prefix + n])
        self.w, self.b = g("query_key_value.weight"), g("query_key_value.bias")
        self.wo, self.bo = g("dense.weight"), g("dense.bias")
        if self.w.shape != (3 * cfg.d_model, cfg.d_model):
            raise ValueError(f"unexpected shape {self.w.shape}")

    def __call__(self, x, past=None):
        """x [B, T, d_model] causal; past (k, v) or None -> y, (k, v)"""
        c = self.cfg
        B, T, _ = x.shape
        qkv = linear(x, self.w, self.b).reshape(B, T, 3, c.n_head, c.d_head)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        n = 0 if past is None else past[0].shape[2]
        q, k = rotary(q, c, n), rotary(k, c, n)
        if past is not None:
            k, v = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(c.d_head)
        future = np.arange(n + T)[None, :] > np.arange(n, n + T)[:, None]
        s[..., future] = -np.inf
        y = (stable_softmax(s) @ v).transpose(0, 2, 1, 3).reshape(B, T, c.d_model)
        return linear(y, self.wo, self.bo), (k, v)


def fake_state(cfg, rng):
    d = cfg.d_model
    n = lambda *s: rng.normal(0, d ** -0.5, s)
    return {
        "attention.query_key_value.weight": n(3 * d, d),
        "attention.query_key_value.bias": n(3 * d),
        "attention.dense.weight": n(d, d),
        "attention.dense.bias": n(d),
    }


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    cfg = NeoxConfig()
    att = NeoxAttention(cfg, fake_state(cfg, rng))
    y, kv = att(rng.normal(size=(2, 5, 32)))
    y, kv = att(rng.normal(size=(2, 1, 32)), kv)
    print(y.shape, kv[0].shape)
