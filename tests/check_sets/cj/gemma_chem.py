"""Decoder attention of our SMILES generator, a shrunk Gemma-2 recipe."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SmilesAttention(nn.Module):
    """Causal self-attention with logit soft-capping.

    logits = cap * tanh(q.k / sqrt(head_dim) / cap); the mask is applied so that
    later tokens and padding get exactly zero weight.

    tokens are padded on the right; pad is (B, T) bool, True = padding.
    """

    def __init__(self, dim=32, heads=4, cap=5.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.cap = cap
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x, pad=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.head_dim).unbind(2)
        logits = torch.einsum("bqhd,bkhd->bhqk", q, k)
        hide = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), diagonal=1)
        if pad is not None:
            hide = hide | pad[:, None, None, :]
        logits = logits.masked_fill(hide, float("-inf"))
        logits = self.cap * torch.tanh(logits / self.cap)
        probs = F.softmax(logits, dim=-1)
        out = torch.einsum("bhqk,bkhd->bqhd", probs, v)
        return self.o(out.flatten(2))


class SmilesBlock(nn.Module):
    """pre- and post-norm around both halves, as Gemma 2 does"""

    def __init__(self, dim=32, heads=4, cap=5.0):
        super().__init__()
        self.attn = SmilesAttention(dim, heads, cap)
        self.gate = nn.Linear(dim, 2 * dim, bias=False)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)
        self.n = nn.ModuleList([nn.RMSNorm(dim) for _ in range(4)])

    def forward(self, x, pad=None):
        x = x + self.n[1](self.attn(self.n[0](x), pad))
        h = self.n[2](x)
        return x + self.n[3](self.down(F.gelu(self.gate(h)) * self.up(h)))
