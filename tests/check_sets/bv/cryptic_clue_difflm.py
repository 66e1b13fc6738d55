"""Fine-tuning a small causal LM to explain cryptic crossword clues.

The backbone uses *differential* attention (Ye et al., 2024): two softmax maps per
head are subtracted so that common-mode noise (the surface reading of the clue)
cancels.  LoRA adapters sit on q and v only; everything else is frozen.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, d_in, d_out, rank=4, alpha=8.0):
        super().__init__()
        self.base = nn.Linear(d_in, d_out, bias=False)
        self.base.weight.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, d_in) / math.sqrt(d_in))
        self.up = nn.Parameter(torch.zeros(d_out, rank))
        self.gain = alpha / rank

    def forward(self, x):
        return self.base(x) + self.gain * F.linear(F.linear(x, self.down), self.up)


def lambda_init_for(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadRMS(nn.Module):
    """RMSNorm over the channels of one head; no weight is shared between heads here."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class DiffAttention(nn.Module):
    """Causal differential attention.  x: [batch, time, d_model].

    With n heads the head size is d_model / n / 2 for q and k and twice that for v.
    """

    def __init__(self, d_model, n_heads, depth=0):
        super().__init__()
        self.n = n_heads
        self.hd = d_model // n_heads // 2
        self.q = LoRALinear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model, bias=False)
        self.v = LoRALinear(d_model, d_model)
        self.o = nn.Linear(d_model, d_model, bias=False)
        self.lambda_init = lambda_init_for(depth)
        for name in ("lq1", "lk1", "lq2", "lk2"):
            setattr(self, name, nn.Parameter(torch.randn(self.hd) * 0.1))
        self.norm = HeadRMS(2 * self.hd)

    def mix(self):
        a = torch.exp(torch.dot(self.lq1, self.lk1))
        b = torch.exp(torch.dot(self.lq2, self.lk2))
        return a - b + self.lambda_init

    def forward(self, x):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, 2 * self.n, self.hd).transpose(1, 2)
        k = self.k(x).view(B, T, 2 * self.n, self.hd).transpose(1, 2)
        v = self.v(x).view(B, T, self.n, 2 * self.hd).transpose(1, 2)

        att = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.hd)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        att = att.masked_fill(future, float("-inf")).softmax(-1, dtype=torch.float32).type_as(x)
        att = att.view(B, self.n, 2, T, T)
        att = att[:, :, 0] - self.mix() * att[:, :, 1]

        y = self.norm(att @ v) * (1.0 - self.lambda_init)
        return self.o(y.transpose(1, 2).reshape(B, T, -1))


class ClueBlock(nn.Module):
    def __init__(self, d_model, n_heads, depth):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mixer = DiffAttention(d_model, n_heads, depth)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.SiLU(), nn.Linear(2 * d_model, d_model))

    def forward(self, x):
        x = x + self.mixer(self.n1(x))
        return x + self.ff(self.n2(x))


def trainable(model):
    return [n for n, p in model.named_parameters() if p.requires_grad]
