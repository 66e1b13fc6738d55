"""Segmentation head for the wings of lacewings: which vein is which.

The detector gives one embedding per vein; this head turns it into a mask.  As in the
panoptic head of DETR, every vein attends to the picture with several heads, the maps are
*not* reduced over the heads, and a small convolutional tower reads them together with
the picture.  Besides the maps we return a glimpse (map-weighted mean of the picture
per head), from which the vein's thickness is regressed.

For a given vein, each head's map is a distribution over the pixels of the picture.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VeinAttentionMap(nn.Module):
    """
    q     [B, Q, dq]          vein embeddings
    img   [B, C, h, w]        encoder output
    pad   [B, h, w] bool      True outside of the photograph, or None

    returns maps [B, Q, heads, h, w] and glimpses [B, Q, hidden]
    """

    def __init__(self, dq, c_img, hidden, heads, dropout=0.0):
        super().__init__()
        self.heads, self.hidden = heads, hidden
        self.q_linear = nn.Linear(dq, hidden)
        self.k_linear = nn.Conv2d(c_img, hidden, 1)
        self.v_linear = nn.Conv2d(c_img, hidden, 1)
        for m in (self.q_linear, self.k_linear, self.v_linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
        self.dropout = nn.Dropout(dropout)
        self.norm_factor = float(hidden / heads) ** -0.5

    def forward(self, q, img, pad=None):
        B, Q, _ = q.shape
        h, w = img.shape[-2:]
        qh = self.q_linear(q).view(B, Q, self.heads, -1)
        kh = self.k_linear(img).view(B, self.heads, -1, h, w)
        vh = self.v_linear(img).view(B, self.heads, -1, h, w)
        maps = torch.einsum("bqnc,bnchw->bqnhw", qh * self.norm_factor, kh)
        if pad is not None:
            maps = maps.masked_fill(pad[:, None, None], float("-inf"))
        maps = F.softmax(maps.flatten(2), dim=-1).view_as(maps)
        glimpse = torch.einsum("bqnhw,bnchw->bqnc", self.dropout(maps), vh).flatten(2)
        return maps, glimpse


class VeinMaskHead(nn.Module):
    def __init__(self, dq=64, c_img=64, hidden=64, heads=4, width=32):
        super().__init__()
        self.look = VeinAttentionMap(dq, c_img, hidden, heads)
        self.squeeze = nn.Conv2d(c_img, width, 1)
        self.tower = nn.Sequential(
            nn.Conv2d(width + heads, width, 3, padding=1), nn.GroupNorm(8, width), nn.ReLU(),
            nn.Conv2d(width, width // 2, 3, padding=1), nn.GroupNorm(8, width // 2), nn.ReLU(),
        )
        self.out = nn.Conv2d(width // 2, 1, 3, padding=1)
        self.thickness = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1), nn.Softplus())

    def forward(self, veins, img, pad=None):
        B, Q, _ = veins.shape
        maps, glimpse = self.look(veins, img, pad)
        x = self.squeeze(img).unsqueeze(1).expand(-1, Q, -1, -1, -1)
        x = torch.cat([x, maps], 2).flatten(0, 1)
        x = F.interpolate(self.tower(x), scale_factor=2, mode="nearest")
        return self.out(x).view(B, Q, *x.shape[-2:]), self.thickness(glimpse).squeeze(-1)


def dice(logits, target, eps=1.0):
    p, t = logits.sigmoid().flatten(1), target.flatten(1)
    return 1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)


if __name__ == "__main__":
    m, t = VeinMaskHead()(torch.randn(2, 7, 64), torch.randn(2, 64, 6, 9))
    print(m.shape, t.shape)
