from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = SimpleNamespace(vocab=65, block=64, layers=2, heads=4, width=48, drop=0.0)


class SelfAttn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.nh = c.heads
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.out = nn.Linear(c.width, c.width, bias=False)
        self.ad = nn.Dropout(c.drop)
        self.rd = nn.Dropout(c.drop)
        self.register_buffer("tri", torch.tril(torch.ones(c.block, c.block)).bool())

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.nh, C // self.nh).transpose(1, 2) for t in (q, k, v))
        a = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5
        a = a.masked_fill(~self.tri[:T, :T], float("-inf"))
        a = self.ad(F.softmax(a, dim=-1))
        y = (a @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.rd(self.out(y))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.attn = SelfAttn(c)
        self.mlp = nn.Sequential(
            nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width), nn.Dropout(c.drop)
        )

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class NanoGPT(nn.Module):
    def __init__(self, c=cfg):
        super().__init__()
        self.c = c
        self.tok = nn.Embedding(c.vocab, c.width)
        self.pos = nn.Embedding(c.block, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, c.vocab, bias=False)

    def forward(self, idx, targets=None):
        T = idx.shape[1]
        x = self.tok(idx) + self.pos(torch.arange(T, device=idx.device))
        for b in self.blocks:
            x = b(x)
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx[:, -self.c.block:])
            nxt = torch.multinomial(F.softmax(logits[:, -1], -1), 1)
            idx = torch.cat([idx, nxt], 1)
        return idx
