import torch
import torch.nn as nn
import torch.nn.functional as F


class BasketDigest(nn.Module):
    # goods: (B, N, C); real: (B, N) bool, True where there is an item. An empty basket is fine:
    # every seed can also read the learned "nothing" slot, which stands in front of the items.
    def __init__(self, C=16, n_seeds=3, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.seeds = nn.Parameter(torch.randn(n_seeds, C))
        self.nothing = nn.Parameter(torch.randn(1, 1, C))
        self.toK = nn.Linear(C, C)
        self.toV = nn.Linear(C, C)
        self.toQ = nn.Linear(C, C)
        self.mlp = nn.Sequential(nn.Linear(C, 2 * C), nn.GELU(), nn.Linear(2 * C, C))

    def split(self, x):
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, goods, real):
        B = goods.shape[0]
        goods = torch.cat([self.nothing.expand(B, -1, -1), goods], 1)
        real = F.pad(real, (1, 0), value=True)
        q = self.toQ(self.seeds).expand(B, -1, -1)
        got = F.scaled_dot_product_attention(
            self.split(q), self.split(self.toK(goods)), self.split(self.toV(goods)),
            attn_mask=real[:, None, None])
        x = q + got.transpose(1, 2).flatten(2)
        return x + self.mlp(x)
