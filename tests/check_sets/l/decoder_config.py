from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    width: int = 24
    n_head: int = 3
    mlp_ratio: int = 4
    dropout: float = 0.0
    bias: bool = True


class RMSNorm(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class DecoderLayer(nn.Module):
    def __init__(self, config: Config = Config()):
        super().__init__()
        w = config.width
        self.h = config.n_head
        self.ln_a = RMSNorm(w)
        self.ln_m = RMSNorm(w)
        self.wqkv = nn.Linear(w, 3 * w, bias=config.bias)
        self.wo = nn.Linear(w, w, bias=config.bias)
        self.up = nn.Linear(w, config.mlp_ratio * w)
        self.down = nn.Linear(config.mlp_ratio * w, w)
        self.drop = nn.Dropout(config.dropout)

    def attend(self, x):
        n, l, w = x.shape
        q, k, v = (z.view(n, l, self.h, -1).transpose(1, 2) for z in self.wqkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(n, l, w))

    def forward(self, x):
        x = x + self.drop(self.attend(self.ln_a(x)))
        x = x + self.drop(self.down(F.silu(self.up(self.ln_m(x)))))
        return x
