"""Gemma-like decoder for antibody sequences; weights are converted from the NeoX
training run, so the fused projection is stored per head: rows of `qkv.weight`
are [head0: q k v | head1: q k v | ...], i.e. (heads, 3, head_dim).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SoftCapAttention(nn.Module):
    """Causal self attention with logit soft-capping.

    scores = cap * tanh(q k^T / sqrt(head_dim) / cap); forbidden pairs get no weight at all.
    dropout acts on the weights, while training only.
    pad: (B, L) bool, True = padding, always at the end of a sequence.
    """

    def __init__(self, dim, heads, cap=20.0, dropout=0.1):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.cap, self.dropout = cap, dropout
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, pad=None):
        B, L, D = x.shape
        qkv = self.qkv(x).view(B, L, 3, self.heads, self.hd)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)

        blocked = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)[None, None]
        if pad is not None:
            blocked = blocked | pad[:, None, None, :]
        s = q @ k.mT / self.hd ** 0.5
        s = s.masked_fill(blocked, float("-inf"))
        s = self.cap * torch.tanh(s / self.cap)
        w = F.dropout(s.softmax(-1), self.dropout)
        return self.out((w @ v).transpose(1, 2).reshape(B, L, D))


class GeGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        g, u = self.gate_up(x).chunk(2, -1)
        return self.down(F.gelu(g, approximate="tanh") * u)


class AntibodyLM(nn.Module):
    PAD = 0

    def __init__(self, vocab=25, dim=64, heads=4, depth=2, cap=20.0, final_cap=30.0):
        super().__init__()
        self.final_cap = final_cap
        self.emb = nn.Embedding(vocab, dim, padding_idx=self.PAD)
        self.pos = nn.Embedding(256, dim)
        self.norm = nn.ModuleList(nn.RMSNorm(dim) for _ in range(2 * depth + 1))
        self.att = nn.ModuleList(SoftCapAttention(dim, heads, cap) for _ in range(depth))
        self.mlp = nn.ModuleList(GeGLU(dim, 2 * dim) for _ in range(depth))

    def forward(self, tok):
        pad = tok == self.PAD
        x = self.emb(tok) * self.emb.embedding_dim ** 0.5 + self.pos.weight[: tok.shape[1]]
        for i, (a, m) in enumerate(zip(self.att, self.mlp)):
            x = x + a(self.norm[2 * i](x), pad)
            x = x + m(self.norm[2 * i + 1](x))
        z = self.norm[-1](x) @ self.emb.weight.T
        return self.final_cap * torch.tanh(z / self.final_cap)

    def loss(self, tok):
        return F.cross_entropy(self(tok)[:, :-1].flatten(0, 1), tok[:, 1:].flatten(),
                               ignore_index=self.PAD)
