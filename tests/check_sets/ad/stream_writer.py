import torch
import torch.nn as nn


def rot_half(t):
    a, b = t.split(t.shape[-1] // 2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class StreamAttention(nn.Module):
    """Rotary self attention which keeps its own state between calls.

    Call reset() before a new text. forward(x) takes (batch, new_tokens, width); feeding a
    text in pieces gives what feeding it at once gives.
    """

    def __init__(self, width, n_heads, limit=1024):
        super().__init__()
        self.n_heads = n_heads
        self.size = width // n_heads
        self.scale = n_heads ** -0.5
        self.wqkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        inv = 1.0 / (10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        ang = torch.arange(limit).float()[:, None] * inv[None]
        ang = torch.cat([ang, ang], dim=-1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.reset()

    def reset(self):
        self.old_k = None
        self.old_v = None

    def rotate(self, t):
        n = t.shape[-2]
        return t * self.cos[:n] + rot_half(t) * self.sin[:n]

    def forward(self, x):
        b, n, width = x.shape
        qkv = self.wqkv(x).view(b, n, 3, self.n_heads, self.size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q), self.rotate(k)

        if self.old_k is not None:
            k = torch.cat([self.old_k, k], dim=2)
            v = torch.cat([self.old_v, v], dim=2)
        self.old_k, self.old_v = k, v

        total = k.shape[2]
        s = (q @ k.transpose(2, 3)) * self.scale
        hide = torch.ones(n, total, dtype=torch.bool, device=x.device).triu(total - n + 1)
        s = s.masked_fill(hide, float("-inf"))
        y = s.softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(b, n, width))
