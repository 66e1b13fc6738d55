"""Port of a GPT-NeoX-like checkpoint (npz) to a small torch module.

Checkpoint facts
  * ``qkv.weight`` is [heads * 3 * head_dim, hidden]; along its rows the heads
    come first and inside each head q, k, v follow one another.
  * ``logit_softcap`` in the config: attention scores are squashed with
    cap * tanh(score / cap) before the causal mask; 0 or absent = no squashing.
  * no rotary part in this family (learned positions at the embedding).
"""
import json
import pathlib

import numpy as np
import torch
from torch import nn


def read_checkpoint(folder):
    folder = pathlib.Path(folder)
    cfg = json.loads((folder / "config.json").read_text())
    with np.load(folder / "weights.npz") as z:
        arrays = {k: np.asarray(z[k], dtype=np.float32) for k in z.files}
    return cfg, arrays


class PortedAttention(nn.Module):
    def __init__(self, hidden, heads, logit_softcap=0.0):
        super().__init__()
        self.hidden = hidden
        self.heads = heads
        self.head_dim = hidden // heads
        self.logit_softcap = logit_softcap
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    @classmethod
    def from_arrays(cls, cfg, arrays, prefix="attention."):
        self = cls(cfg["hidden_size"], cfg["num_attention_heads"], cfg.get("logit_softcap", 0.0))
        with torch.no_grad():
            for name, p in self.named_parameters():
                src = arrays[prefix + name]
                if tuple(src.shape) != tuple(p.shape):
                    raise ValueError(f"{name}: {src.shape} != {tuple(p.shape)}")
                p.copy_(torch.from_numpy(src))
        return self

    def forward(self, x, past=None):
        b, t, _ = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, self.head_dim)
        q, k, v = (z.transpose(1, 2) for z in qkv.unbind(2))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        s = q @ k.mT / np.sqrt(self.head_dim)
        n = k.shape[2]
        hide = torch.ones(t, n, dtype=torch.bool, device=x.device).triu(n - t + 1)
        s = s.masked_fill(hide, float("-inf"))
        p = s.float().softmax(-1).to(v.dtype)
        y = (p @ v).transpose(1, 2).reshape(b, t, self.hidden)
        return self.dense(y), (k, v)


class PortedLayer(nn.Module):
    """Parallel residual: x + attn(ln1(x)) + mlp(ln2(x))."""

    def __init__(self, cfg, arrays):
        super().__init__()
        h = cfg["hidden_size"]
        self.ln1, self.ln2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.attn = PortedAttention.from_arrays(cfg, arrays)
        self.mlp = nn.Sequential(nn.Linear(h, 4 * h), nn.GELU(), nn.Linear(4 * h, h))

    def forward(self, x, past=None):
        a, past = self.attn(self.ln1(x), past)
        return x + a + self.mlp(self.ln2(x)), past


def fake_arrays(hidden, seed=0):
    g = np.random.default_rng(seed)
    r = lambda *s: (g.standard_normal(s) / np.sqrt(hidden)).astype(np.float32)
    return {
        "attention.qkv.weight": r(3 * hidden, hidden) * 2,
        "attention.qkv.bias": r(3 * hidden),
        "attention.dense.weight": r(hidden, hidden),
        "attention.dense.bias": r(hidden),
    }


if __name__ == "__main__":
    cfg = {"hidden_size": 16, "num_attention_heads": 2, "logit_softcap": 5.0}
    layer = PortedLayer(cfg, fake_arrays(16))
    print(layer(torch.randn(2, 4, 16))[0].shape)
