"""ViT over volcanic tremor spectrograms -- eruption within 48 h, yes or no.

Training alternates with a validation pass after every epoch (see ``fit``); attention
dropout matters a lot because there are only 31 eruptions.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Patches(nn.Module):
    def __init__(self, bins: int, frames: int, p: int, dim: int):
        super().__init__()
        self.conv = nn.Conv2d(1, dim, p, stride=p)
        n = (bins // p) * (frames // p)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x[:, None]).flatten(2).mT
        return torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos


class TremorAttention(nn.Module):
    """Full self-attention, [B, N, dim] -> [B, N, dim].

    ``attn_drop`` is the probability with which an attention weight is dropped in
    training mode; in eval mode nothing is dropped.
    """

    def __init__(self, dim: int, heads: int = 4, attn_drop: float = 0.2, proj_drop: float = 0.0):
        super().__init__()
        self.heads = heads
        self.q_dim = dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.q_norm = nn.LayerNorm(self.q_dim)
        self.k_norm = nn.LayerNorm(self.q_dim)
        self.attn_drop = attn_drop
        self.out_proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        q, k, v = self.in_proj(x).view(B, N, 3, self.heads, self.q_dim).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        if not self.training:
            self.attn_drop = 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop)
        y = y.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.out_proj(y))


class TremorBlock(nn.Module):
    def __init__(self, dim: int, heads: int, ratio: int = 3):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = TremorAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))
        self.g1 = nn.Parameter(torch.full((dim,), 0.1))
        self.g2 = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.g1 * self.attn(self.n1(x))
        return x + self.g2 * self.mlp(self.n2(x))


class TremorViT(nn.Module):
    def __init__(self, bins: int = 32, frames: int = 48, patch: int = 8, dim: int = 64, heads: int = 4, depth: int = 2):
        super().__init__()
        self.patches = Patches(bins, frames, patch, dim)
        self.blocks = nn.Sequential(*[TremorBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, spec: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.patches(spec)))[:, 0]).squeeze(-1)


def fit(net: TremorViT, train, valid, epochs: int = 2, lr: float = 3e-4) -> list[float]:
    opt = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.05)
    history = []
    for _ in range(epochs):
        net.train()
        for x, y in train:
            loss = F.binary_cross_entropy_with_logits(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            history.append(sum(F.binary_cross_entropy_with_logits(net(x), y).item() for x, y in valid))
    return history


if __name__ == "__main__":
    batch = [(torch.randn(4, 32, 48), torch.tensor([0.0, 1.0, 0.0, 1.0]))]
    print(fit(TremorViT(), batch, batch))
