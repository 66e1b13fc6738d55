"""Local block of a Gemma-2-like language model, four RMS norms per block.

    x  (B, T, D) -> (B, T, D)

Attention of one head:
    z[i, j] = cap * tanh( q_i . k_j / sqrt(d) / cap )           soft-capped logit
    token i attends to the `window` most recent tokens, itself included:
        i - window < j <= i                   (window=1: only itself)
    all other tokens get weight exactly zero.
"""
import torch
import torch.nn as nn


class RMS(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1 + self.w)


class LocalBlock(nn.Module):
    def __init__(self, D=32, heads=4, window=3, cap=5.0):
        super().__init__()
        self.heads, self.d, self.window, self.cap = heads, D // heads, window, cap
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))
        self.up, self.gate = nn.Linear(D, 2 * D, bias=False), nn.Linear(D, 2 * D, bias=False)
        self.down = nn.Linear(2 * D, D, bias=False)
        self.pre_a, self.post_a, self.pre_f, self.post_f = (RMS(D) for _ in range(4))

    def local_bias(self, T, like):
        i = torch.arange(T, device=like.device)
        back = i[:, None] - i[None, :]
        ok = (back >= 0) & (back <= self.window)
        return torch.zeros(T, T, dtype=like.dtype, device=like.device).masked_fill(~ok, -torch.inf)

    def attend(self, x):
        B, T, D = x.shape
        q, k, v = (f(x).unflatten(-1, (self.heads, self.d)).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        z = q @ k.mT * self.d ** -0.5 + self.local_bias(T, x)
        z = self.cap * torch.tanh(z / self.cap)
        w = torch.softmax(z.float(), -1).type_as(x)
        return self.o((w @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.post_a(self.attend(self.pre_a(x)))
        h = self.pre_f(x)
        return x + self.post_f(self.down(nn.functional.gelu(self.gate(h)) * self.up(h)))
