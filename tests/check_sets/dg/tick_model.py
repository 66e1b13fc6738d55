# Order-book challenge: causal transformer on ticks, cosine logits with a trained temperature
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class TickBlock(nn.Module):
    def __init__(self, d=32, nh=4, p=0.1):
        super().__init__()
        self.nh, self.p = nh, p
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.to_qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d)
        self.log_tau = nn.Parameter(torch.full((nh, 1, 1), math.log(10.0)))
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def mix(self, x):
        b, t, d = x.shape
        q, k, v = self.to_qkv(x).view(b, t, 3, self.nh, d // self.nh).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        s = self.log_tau.clamp(max=math.log(100.0)).exp() * (q @ k.transpose(2, 3))
        s = s + torch.full((t, t), float("-inf"), device=x.device).triu(1)
        a = F.dropout(s.softmax(dim=-1), self.p, training=self.training)
        return self.out((a @ v).permute(0, 2, 1, 3).reshape(b, t, d))

    def forward(self, x):
        x = x + self.mix(self.ln1(x))
        return x + self.ff(self.ln2(x))


class TickModel(nn.Module):
    def __init__(self, n_feat=10, d=32, layers=2):
        super().__init__()
        self.inp = nn.Linear(n_feat, d)
        self.blocks = nn.ModuleList(TickBlock(d) for _ in range(layers))
        self.head = nn.Linear(d, 1)

    def forward(self, book):
        """book (B, T, n_feat) -> next-tick return at every step (B, T)"""
        x = self.inp(book)
        for blk in self.blocks:
            x = blk(x)
        return self.head(x).squeeze(-1)
