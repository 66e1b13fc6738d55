"""Instance head for fluorescence microscopy, built on DETR-style cell queries.

Each head of each query gives a probability map over the pixels (sums to 1 over
the image). The maps pool the image features and feed the mask decoder.
"""
from typing import Optional

import torch
from torch import nn, Tensor
import torch.nn.functional as F


class CellAttentionMaps(nn.Module):
    """queries (B, Q, d), feats (B, c, h, w), blank (B, h, w) bool, True = outside of the dish.

    returns maps (B, Q, heads, h, w) and pooled features (B, Q, hidden)
    """

    def __init__(self, query_dim: int, feat_dim: int, hidden: int, heads: int = 4):
        super().__init__()
        self.heads, self.hidden = heads, hidden
        self.q_linear = nn.Linear(query_dim, hidden)
        self.k_linear = nn.Conv2d(feat_dim, hidden, 1)
        self.v_linear = nn.Conv2d(feat_dim, hidden, 1)
        self.norm = (hidden / heads) ** -0.5

    def forward(self, queries: Tensor, feats: Tensor, blank: Optional[Tensor] = None):
        B, Q, _ = queries.shape
        h, w = feats.shape[-2:]
        q = self.q_linear(queries).view(B, Q, self.heads, -1)
        k = self.k_linear(feats).view(B, self.heads, -1, h, w)
        v = self.v_linear(feats).view(B, self.heads, -1, h, w)

        maps = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm, k)
        if blank is not None:
            maps = maps.masked_fill(blank[:, None, None], float("-inf"))
        maps = F.softmax(maps.flatten(2), dim=-1).view(maps.shape)
        pooled = torch.einsum("bqnhw,bnchw->bqnc", maps, v)
        return maps, pooled.flatten(2)


class CellMaskDecoder(nn.Module):
    def __init__(self, d: int = 32, c: int = 16, heads: int = 4):
        super().__init__()
        self.maps = CellAttentionMaps(d, c, d, heads)
        self.conv = nn.Sequential(nn.Conv2d(heads + c, 16, 3, padding=1), nn.GroupNorm(4, 16),
                                  nn.ReLU(), nn.Conv2d(16, 1, 1))
        self.score = nn.Linear(d, 1)

    def forward(self, queries, feats, blank=None):
        m, pooled = self.maps(queries, feats, blank)
        B, Q, n, h, w = m.shape
        f = feats[:, None].expand(-1, Q, -1, -1, -1)
        x = torch.cat((m, f), dim=2).flatten(0, 1)
        masks = self.conv(x).view(B, Q, h, w)
        return masks, self.score(pooled).squeeze(-1)


def dice(a: Tensor, b: Tensor, eps: float = 1.0) -> Tensor:
    a, b = a.sigmoid().flatten(1), b.flatten(1)
    return 1 - (2 * (a * b).sum(1) + eps) / (a.sum(1) + b.sum(1) + eps)


if __name__ == "__main__":
    dec = CellMaskDecoder()
    mk, sc = dec(torch.randn(2, 5, 32), torch.randn(2, 16, 12, 10))
    print(mk.shape, sc.shape)
