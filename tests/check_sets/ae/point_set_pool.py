import torch
import torch.nn as nn


class SeedPooling(nn.Module):
    """Pool a set of points to `k` vectors with k learned seed queries.

    pts: (B, N, C); present: (B, N) bool or None. An empty set gives the output bias only.
    """

    def __init__(self, C, k=1, heads=4):
        super().__init__()
        self.heads = heads
        self.seeds = nn.Parameter(torch.randn(k, C) * C ** -0.5)
        self.key = nn.Linear(C, C, bias=False)
        self.val = nn.Linear(C, C, bias=False)
        self.out = nn.Linear(C, C)

    def forward(self, pts, present=None):
        B, N, C = pts.shape
        H, D = self.heads, C // self.heads
        if present is not None:
            pts = torch.where(present.unsqueeze(-1), pts, pts.new_zeros(()))
        s = self.seeds.view(-1, H, D)
        k = self.key(pts).view(B, N, H, D)
        v = self.val(pts).view(B, N, H, D)

        e = torch.einsum("shd,bnhd->bhsn", s, k) / D ** 0.5
        if present is not None:
            e = e.masked_fill(~present[:, None, None, :], torch.finfo(e.dtype).min)
        e = e - e.amax(-1, keepdim=True).detach()
        e = e.exp()
        if present is not None:
            e = e * present[:, None, None, :]
        z = torch.einsum("bhsn,bnhd->bshd", e, v)
        n = e.sum(-1).transpose(1, 2).unsqueeze(-1)
        z = z / n.clamp_min(torch.finfo(e.dtype).tiny)
        return self.out(z.flatten(2))
