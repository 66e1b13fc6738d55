"""PatchTST-like forecaster: channel independent, attention over patches.

x (B, T, M) -> (B, horizon, M). Heads use standard scaled dot-product attention
(each head scaled by its own width), as in the original transformer.
"""
import torch
from torch import nn


class PatchAttention(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.n_heads = n_heads
        self.in_proj = nn.Linear(d_model, d_model * 3)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, z):
        bsz, n, d_model = z.shape
        qkv = self.in_proj(z).reshape(bsz, n, 3, self.n_heads, d_model // self.n_heads)
        q, k, v = qkv.movedim(2, 0).transpose(2, 3)
        logits = torch.einsum("bhnd,bhmd->bhnm", q, k)
        logits = logits * d_model ** -0.5
        w = self.dropout(torch.softmax(logits, dim=-1))
        out = torch.einsum("bhnm,bhmd->bnhd", w, v)
        return self.out_proj(out.flatten(-2))


class PatchForecast(nn.Module):
    def __init__(self, T=32, horizon=8, patch=8, stride=4, d_model=32, n_heads=4, dropout=0.1):
        super().__init__()
        self.patch, self.stride = patch, stride
        n = (T - patch) // stride + 1
        self.embed = nn.Linear(patch, d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(n, d_model))
        self.attn = PatchAttention(d_model, n_heads, dropout)
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))
        self.head = nn.Linear(n * d_model, horizon)

    def forward(self, x):
        mu, sd = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        p = ((x - mu) / sd).transpose(1, 2).unfold(-1, self.patch, self.stride)   # B M n patch
        B, M = p.shape[:2]
        z = self.embed(p.flatten(0, 1)) + self.pos
        z = self.n1(z + self.attn(z))
        z = self.n2(z + self.ff(z))
        y = self.head(z.flatten(1)).view(B, M, -1).transpose(1, 2)
        return y * sd + mu
