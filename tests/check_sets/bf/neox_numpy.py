"""GPT-NeoX / Pythia checkpoint (torch .bin) executed with NumPy only.

query_key_value.weight of NeoX is (3E, E). The rows are grouped PER HEAD: for head 0
its q, k and v (head_dim rows each), then head 1, and so on. No rotary here: our
models were trained with learned positions.
"""
import numpy as np
import torch


def load(path_or_dict):
    sd = path_or_dict if isinstance(path_or_dict, dict) else torch.load(path_or_dict, map_location="cpu")
    return {k: v.float().numpy() for k, v in sd.items()}


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


class NeoXAttention:
    def __init__(self, sd, prefix, n_heads):
        g = lambda n: sd[prefix + n]
        self.w, self.b = g("query_key_value.weight"), g("query_key_value.bias")
        self.wo, self.bo = g("dense.weight"), g("dense.bias")
        self.n = n_heads

    def __call__(self, x):
        """x (T, E), causal"""
        T, E = x.shape
        d = E // self.n
        y = x @ self.w.T + self.b
        y = y.reshape(T, 3, self.n, d)
        q, k, v = (y[:, i].transpose(1, 0, 2) for i in range(3))
        s = q @ k.transpose(0, 2, 1) / np.sqrt(d)
        s[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
        s -= s.max(-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(-1, keepdims=True)
        o = (p @ v).transpose(1, 0, 2).reshape(T, E)
        return o @ self.wo.T + self.bo


class ParallelBlock:
    """NeoX computes attention and MLP in parallel from the same input."""

    def __init__(self, sd, i, n_heads):
        p = f"layers.{i}."
        self.att = NeoXAttention(sd, p + "attention.", n_heads)
        self.up, self.down = sd[p + "mlp.up"], sd[p + "mlp.down"]

    def __call__(self, x):
        return x + self.att(x) + gelu(x @ self.up.T) @ self.down.T


def fake_state_dict(E=12, seed=0):
    t = torch.Generator().manual_seed(seed)
    r = lambda *s: torch.randn(*s, generator=t) * 0.3
    a = "layers.0.attention."
    return {a + "query_key_value.weight": r(3 * E, E), a + "query_key_value.bias": r(3 * E),
            a + "dense.weight": r(E, E), a + "dense.bias": r(E),
            "layers.0.mlp.up": r(2 * E, E), "layers.0.mlp.down": r(E, 2 * E)}
