import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    """Grouped-query attention (Ainslie et al. 2023): consecutive query heads share a key/value head."""

    def __init__(self, embed_dim: int, num_heads: int, num_kv_heads: int):
        super().__init__()
        self.nh, self.nkv, self.hd = num_heads, num_kv_heads, embed_dim // num_heads
        self.q = nn.Linear(embed_dim, embed_dim, bias=False)
        self.kv = nn.Linear(embed_dim, 2 * num_kv_heads * self.hd, bias=False)
        self.o = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x):
        B, L, E = x.shape
        q = self.q(x).view(B, L, self.nh, self.hd).transpose(1, 2)
        k, v = self.kv(x).view(B, L, 2, self.nkv, self.hd).permute(2, 0, 3, 1, 4)
        g = self.nh // self.nkv
        k = k.repeat(1, g, 1, 1)
        v = v.repeat(1, g, 1, 1)
        w = torch.softmax(q @ k.transpose(2, 3) / self.hd ** 0.5, dim=-1)
        return self.o((w @ v).transpose(1, 2).reshape(B, L, E))
