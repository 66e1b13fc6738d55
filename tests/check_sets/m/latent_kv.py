import torch
from torch import nn


class LatentAttention(nn.Module):
    """Keys and values are rebuilt from a small latent (as in DeepSeek-V2, without the rotary part).  Causal."""

    def __init__(self, d_model=32, n_heads=4, d_latent=8):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wdkv = nn.Linear(d_model, d_latent, bias=False)
        self.norm = nn.LayerNorm(d_latent)
        self.wuk = nn.Linear(d_latent, d_model, bias=False)
        self.wuv = nn.Linear(d_latent, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        b, s, _ = x.shape
        latent = self.norm(self.wdkv(x))
        q = self.wq(x).view(b, s, self.n_heads, self.head_dim)
        k = self.wuk(latent).view(b, s, self.n_heads, self.head_dim)
        v = self.wuv(latent).view(b, s, self.n_heads, self.head_dim)
        scores = torch.einsum("bshd,bthd->bsht", q, k) / self.head_dim ** 0.5
        hide = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(hide[None, :, None, :], float("-inf"))
        y = torch.einsum("bsht,bthd->bshd", scores.softmax(dim=-1), v)
        return self.wo(y.flatten(2))
