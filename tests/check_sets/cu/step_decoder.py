"""Single layer used by the voice bot: prefill once, then feed tokens one by one.

    layer = StepLayer(); y, st = layer(prompt); y, st = layer(tok, st) ...
Feeding a text at once or in pieces gives the same outputs.
"""
import torch
import torch.nn as nn


def angles(n, d, base=10000):
    inv = 1.0 / (base ** (torch.arange(0, d, 2).float() / d))
    t = torch.outer(torch.arange(n).float(), inv)
    return t.cos(), t.sin()


def spin(x, cos, sin):
    """interleaved pairs; x (B, h, T, d), cos/sin (T, d/2)"""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class StepLayer(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=128):
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        cos, sin = angles(max_len, dim // heads)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, state=None):
        """x (B, T, dim): the T newest tokens. state: (k, v) of all earlier ones."""
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        n0 = state[0].shape[2] if state is not None else 0
        cos, sin = self.cos[:T], self.sin[:T]
        q, k = spin(q, cos, sin), spin(k, cos, sin)
        if state is not None:
            k = torch.cat([state[0], k], 2)
            v = torch.cat([state[1], v], 2)
        keep = torch.ones(T, n0 + T, dtype=torch.bool, device=x.device).tril(n0)
        s = (q @ k.transpose(2, 3)) / q.shape[-1] ** 0.5
        s = s.masked_fill(~keep, float("-inf"))
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)
        return x + self.out(y), (k, v)
