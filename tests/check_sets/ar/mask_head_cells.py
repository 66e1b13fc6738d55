"""Mask head for cell segmentation on top of a DETR of my own.  Every object query yields one
attention map per head over the pixels of the encoder's map; each head's map is a
distribution over the pixels (sums to 1), small convs turn the maps into mask logits.

pixel_pad: bool (B, H, W), True where the image is padding.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PixelAttentionMaps(nn.Module):
    """query, key only, no values: returns (B, Q, heads, H, W)"""

    def __init__(self, query_dim, pixel_dim, hidden_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.hidden_dim = num_heads, hidden_dim
        self.q_linear = nn.Linear(query_dim, hidden_dim)
        self.k_linear = nn.Conv2d(pixel_dim, hidden_dim, 1)
        self.dropout = nn.Dropout(dropout)
        self.temper = (hidden_dim / num_heads) ** -0.5

    def forward(self, q, fmap, pixel_pad=None):
        B, Q, _ = q.shape
        H, W = fmap.shape[-2:]
        qh = self.q_linear(q).view(B, Q, self.num_heads, -1)
        kh = self.k_linear(fmap).view(B, self.num_heads, -1, H, W)
        maps = torch.einsum("bqnc,bnchw->bqnhw", qh * self.temper, kh)
        if pixel_pad is not None:
            maps = maps.masked_fill(pixel_pad[:, None, None], float("-inf"))
        maps = F.softmax(maps.flatten(2), dim=-1).view(maps.size())
        return self.dropout(maps)


class MaskHead(nn.Module):
    def __init__(self, dim, heads, width=16):
        super().__init__()
        self.maps = PixelAttentionMaps(dim, dim, dim, heads)
        self.c1 = nn.Conv2d(dim + heads, width, 3, padding=1)
        self.gn = nn.GroupNorm(4, width)
        self.c2 = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, queries, fmap, pixel_pad=None):
        B, Q, _ = queries.shape
        a = self.maps(queries, fmap, pixel_pad).flatten(0, 1)
        f = fmap[:, None].expand(-1, Q, -1, -1, -1).flatten(0, 1)
        x = F.relu(self.gn(self.c1(torch.cat([f, a], dim=1))))
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.c2(x).view(B, Q, 2 * fmap.size(-2), 2 * fmap.size(-1))


def dice_loss(logits, target):
    p, t = logits.sigmoid().flatten(1), target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


if __name__ == "__main__":
    head = MaskHead(16, 4)
    pad = torch.zeros(2, 5, 6, dtype=torch.bool)
    pad[1, :, 4:] = True
    m = head(torch.randn(2, 3, 16), torch.randn(2, 16, 5, 6), pad)
    print(m.shape, dice_loss(m, torch.ones_like(m)))
