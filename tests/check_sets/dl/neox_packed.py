"""GPT-NeoX attention.  The fused projection's rows are laid out head by head:
[head 0: q k v][head 1: q k v]..., each of size d (as in the published checkpoints).

Rotary: the first int(d * pct) dimensions, half-split (i and i + rot/2 make a pair).
"""
import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class NeoXAttention(nn.Module):
    def __init__(self, hidden, heads, pct=0.5, max_pos=64, base=10000.0):
        super().__init__()
        self.heads = heads
        self.size = hidden // heads
        self.rot = int(self.size * pct)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        inv = 1.0 / (base ** (torch.arange(0, self.rot, 2).float() / self.rot))
        f = torch.outer(torch.arange(max_pos).float(), inv)
        table = torch.cat((f, f), dim=-1)
        self.register_buffer("cos", table.cos(), persistent=False)
        self.register_buffer("sin", table.sin(), persistent=False)
        tri = torch.tril(torch.ones(max_pos, max_pos, dtype=torch.bool))
        self.register_buffer("bias", tri, persistent=False)

    def spin(self, x, lo, hi):
        r, p = x[..., :self.rot], x[..., self.rot:]
        r = r * self.cos[lo:hi] + rotate_half(r) * self.sin[lo:hi]
        return torch.cat((r, p), dim=-1)

    def forward(self, h, layer_past=None):
        """h (B, T, hidden), the T tokens behind those of layer_past = (k, v), each
        (B, H, P, d), or None.  Returns (B, T, hidden), (k, v) with P + T tokens.
        Token i of the text sees 0..i."""
        b, t, _ = h.shape
        qkv = self.query_key_value(h).view(b, t, self.heads, 3 * self.size).transpose(1, 2)
        q, k, v = qkv.split(self.size, dim=-1)
        past = 0 if layer_past is None else layer_past[0].shape[-2]
        total = past + t
        q = self.spin(q, past, total)
        k = self.spin(k, past, total)
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        scores = torch.baddbmm(
            torch.zeros(b * self.heads, t, total, dtype=q.dtype),
            q.reshape(-1, t, self.size),
            k.reshape(-1, total, self.size).transpose(1, 2),
            beta=0.0, alpha=self.size ** -0.5,
        ).view(b, self.heads, t, total)
        seen = self.bias[past:total, :total]
        scores = torch.where(seen, scores, torch.finfo(scores.dtype).min)
        y = torch.matmul(scores.softmax(-1), v)
        return self.dense(y.transpose(1, 2).reshape(b, t, -1)), (k, v)
