import torch
import torch.nn as nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class LlamaAttention(nn.Module):
    """x: (B, T, dim), the newest tokens; past: None or (k, v), each (B, n_heads, P, head_dim), rotated keys.

    Returns the output and the new (k, v).  Positions go on after the past.
    """

    def __init__(self, dim=16, n_heads=2, base=10000.0):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, self.hd, 2).float() / self.hd))

    def rope(self, x, pos):
        ang = torch.outer(pos.to(x.dtype), self.inv_freq.to(x.dtype)).repeat(1, 2)
        return x * ang.cos() + rotate_half(x) * ang.sin()

    def forward(self, x, past=None):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, self.hd).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        start = 0 if past is None else past[0].shape[2]
        pos = torch.arange(T)
        q, k = self.rope(q, pos), self.rope(k, pos)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        s = q @ k.mT / self.hd ** 0.5
        S = k.shape[2]
        s = s.masked_fill(torch.ones(T, S, dtype=torch.bool).triu(S - T + 1), torch.finfo(s.dtype).min)
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1)), (k, v)
