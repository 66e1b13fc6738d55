"""HD map tiles: compress the points of one lane into a few lane tokens."""
import torch
import torch.nn as nn


class LaneSummary(nn.Module):
    """Learned seeds read the points of each lane.

    pts:   (B, lanes, P, feat)
    valid: (B, lanes, P) bool
    out:   (B, lanes, seeds, dim); a lane without any valid point gives zeros
    """

    def __init__(self, feat, dim=32, seeds=2, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Sequential(nn.Linear(feat, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.seeds = nn.Parameter(torch.randn(seeds, dim))
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, pts, valid):
        B, L, P, _ = pts.shape
        H = self.heads
        e = self.embed(pts)
        q = self.seeds.view(-1, H, e.shape[-1] // H)            # seeds, H, d
        k = self.k(e).view(B, L, P, H, -1)
        v = self.v(e).view(B, L, P, H, -1)
        s = torch.einsum("shd,blphd->blhsp", q, k) * q.shape[-1] ** -0.5
        keep = valid[:, :, None, None, :]
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
        w = s.softmax(dim=-1) * keep
        out = torch.einsum("blhsp,blphd->blshd", w, v)
        return out.reshape(B, L, -1, e.shape[-1])
