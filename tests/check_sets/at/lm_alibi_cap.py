"""Small causal LM with ALiBi (Press et al. 2022) and soft-capped attention logits.

ALiBi: head h of n (power of two) subtracts m_h * (i - j); the slopes are the geometric
sequence that starts at 2^(-8/n) and has that same ratio: 1/2, 1/4, ... 1/256 for 8 heads.
The cap holds the biased logits in (-cap, cap); future tokens get no weight at all.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_slopes(n_heads):
    ratio = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([ratio ** h for h in range(n_heads)])


class CappedAlibiAttention(nn.Module):
    def __init__(self, dim, n_heads, cap=4.0):
        super().__init__()
        self.n_heads, self.cap = n_heads, cap
        self.hd = dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("slopes", alibi_slopes(n_heads).view(1, n_heads, 1, 1))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_heads, self.hd).transpose(1, 2) for t in self.wqkv(x).split(C, dim=-1))
        pos = torch.arange(T, device=x.device)
        dist = (pos[:, None] - pos[None, :]).to(x.dtype)
        logits = q @ k.transpose(-1, -2) / math.sqrt(self.hd)
        logits = logits - self.slopes * dist
        logits = logits.masked_fill(pos[None, :] > pos[:, None], float("-inf"))
        logits = self.cap * torch.tanh(logits / self.cap)
        y = F.softmax(logits, dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


class GLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.a, self.b = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        g, u = self.a(x).chunk(2, -1)
        return self.b(F.gelu(g) * u)


class Block(nn.Module):
    def __init__(self, dim, heads, cap):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.att, self.ff = CappedAlibiAttention(dim, heads, cap), GLU(dim)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class TinyStoriesLM(nn.Module):
    def __init__(self, vocab=4096, dim=128, heads=8, depth=4, cap=4.0):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[Block(dim, heads, cap) for _ in range(depth)])
        self.norm = nn.RMSNorm(dim)

    def forward(self, idx, targets=None):
        x = self.norm(self.blocks(self.emb(idx)))
        logits = x @ self.emb.weight.t()
        if targets is None:
            return logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def tell(self, idx, n=100, temperature=0.8):
        for _ in range(n):
            p = F.softmax(self(idx)[:, -1] / temperature, -1)
            idx = torch.cat([idx, torch.multinomial(p, 1)], 1)
        return idx
