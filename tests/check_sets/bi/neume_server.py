"""
Serving side of the chant model (square-notation neumes).

* rotary embedding on adjacent channel pairs (2i, 2i+1), as in the training code
* the logits are soft-capped at ``logit_cap`` as in training
* chunked prefill: ``extend`` may be called with any number of neumes, the earlier
  ones stay in the cache; every neume sees all the earlier ones and itself
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChantConfig:
    def __init__(self, dim=64, heads=4, logit_cap=30.0, theta=10000.0, max_len=1024):
        self.dim = dim
        self.heads = heads
        self.head_dim = dim // heads
        self.logit_cap = logit_cap
        self.theta = theta
        self.max_len = max_len


def angles(cfg):
    inv = cfg.theta ** (-torch.arange(0, cfg.head_dim, 2).float() / cfg.head_dim)
    t = torch.outer(torch.arange(cfg.max_len).float(), inv)
    return t.repeat_interleave(2, dim=-1)


def turn(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class ChantAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.cap = cfg.logit_cap
        self.wqkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)
        t = angles(cfg)
        self.register_buffer("cos", t.cos(), persistent=False)
        self.register_buffer("sin", t.sin(), persistent=False)
        self.clear()

    def clear(self):
        self.past = None

    def extend(self, x):
        """x (B, n, dim): the next n neumes of each chant."""
        B, n, _ = x.shape
        c = self.cfg
        q, k, v = self.wqkv(x).view(B, n, 3, c.heads, c.head_dim).permute(2, 0, 3, 1, 4)
        p0 = 0 if self.past is None else self.past[0].size(2)
        cos, sin = self.cos[p0:p0 + n], self.sin[p0:p0 + n]
        q = q * cos + turn(q) * sin
        k = k * cos + turn(k) * sin
        if self.past is not None:
            k = torch.cat((self.past[0], k), dim=2)
            v = torch.cat((self.past[1], v), dim=2)
        self.past = (k, v)

        s = q @ k.transpose(2, 3) * c.head_dim ** -0.5
        if n > 1:
            seen = torch.tril(torch.ones(n, k.size(2), dtype=torch.bool, device=x.device))
            s = s.masked_fill(~seen, float("-inf"))
        y = F.softmax(s, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, n, -1))

    def forward(self, x):
        return self.extend(x)


class Cantor:
    """Keeps one chant going; ``feed`` takes features of new neumes."""

    def __init__(self, layer, readout):
        self.layer, self.readout = layer, readout

    @torch.no_grad()
    def feed(self, feats):
        return self.readout(feats + self.layer.extend(feats))[:, -1].argmax(-1)

    def amen(self):
        self.layer.clear()
