"""CT organ segmentation: learned organ queries read the feature map with several heads."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ORGANS = ["spleen", "kidney_r", "kidney_l", "liver", "stomach", "pancreas"]


def window_hu(ct, level=40.0, width=400.0):
    lo = level - width / 2
    return ((ct - lo) / width).clamp(0, 1)


def dice_loss(logits, target, eps=1.0):
    p = logits.sigmoid().flatten(2)
    t = target.flatten(2)
    return (1 - (2 * (p * t).sum(-1) + eps) / (p.sum(-1) + t.sum(-1) + eps)).mean()


class Backbone(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, dim // 2, 3, 2, 1), nn.GroupNorm(4, dim // 2), nn.ReLU(),
                                 nn.Conv2d(dim // 2, dim, 3, 2, 1), nn.GroupNorm(4, dim), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class OrganReader(nn.Module):
    """queries [B, Q, C] attend to the pixels of fmap [B, C, h, w].

    Each head makes its own distribution over the pixels. `body` (bool [B, h, w], True = inside the
    patient) limits what is read. Returns the read-outs [B, Q, C] and the maps [B, Q, heads, h, w].
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_lin = nn.Linear(dim, dim)
        self.k_conv = nn.Conv2d(dim, dim, 1)
        self.v_conv = nn.Conv2d(dim, dim, 1)
        self.merge = nn.Linear(dim, dim)
        self.norm_fact = float(dim / heads) ** -0.5

    def forward(self, queries, fmap, body=None):
        B, Q, C = queries.shape
        h, w = fmap.shape[-2:]
        n, c = self.heads, C // self.heads
        q = self.q_lin(queries).view(B, Q, n, c)
        k = self.k_conv(fmap).view(B, n, c, h, w)
        v = self.v_conv(fmap).view(B, n, c, h, w)
        weights = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm_fact, k)
        if body is not None:
            weights = weights.masked_fill(~body[:, None, None], -1e9)
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        out = torch.einsum("bqnhw,bnchw->bqnc", weights, v).reshape(B, Q, C)
        return self.merge(out), weights


class OrganSegmenter(nn.Module):
    def __init__(self, dim=32, heads=4, rounds=2):
        super().__init__()
        self.back = Backbone(dim)
        self.q = nn.Parameter(torch.randn(1, len(ORGANS), dim))
        self.readers = nn.ModuleList(OrganReader(dim, heads) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(rounds))
        self.dec = nn.Conv2d(heads + 1, 1, 3, padding=1)

    def forward(self, ct):
        img = window_hu(ct)
        f = self.back(img)
        body = F.adaptive_max_pool2d(img, f.shape[-2:])[:, 0] > 0
        q = self.q.expand(ct.shape[0], -1, -1)
        for r, n in zip(self.readers, self.norms):
            y, maps = r(q, f, body)
            q = n(q + y)
        sim = torch.einsum("bqc,bchw->bqhw", q, f).unsqueeze(2) / f.shape[1] ** 0.5
        z = torch.cat([maps, sim], 2).flatten(0, 1)
        m = self.dec(z).view(ct.shape[0], len(ORGANS), *f.shape[-2:])
        return F.interpolate(m, size=ct.shape[-2:], mode="bilinear", align_corners=False)
