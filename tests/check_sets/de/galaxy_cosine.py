import torch
from torch import nn
import torch.nn.functional as F


class GalaxySet(nn.Module):
    """Cosine attention among the galaxies of a cluster.

    The score of two galaxies is the cosine of the angle between query and key of
    the head, so it lies in [-1, 1] before the learned temperature (one per head,
    as in Swin v2). gal: (B, N, f), is_member: (B, N) bool.
    """

    def __init__(self, f=7, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(f, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.log_tau = nn.Parameter(torch.full((heads, 1, 1), 10.0).log())

    def forward(self, gal, is_member):
        x = self.embed(gal)
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q), F.normalize(k)
        s = q @ k.transpose(-2, -1) * self.log_tau.clamp(max=4.6).exp()
        drop = ~is_member[:, None, None, :]
        p = s.masked_fill(drop, torch.finfo(s.dtype).min).softmax(-1).masked_fill(drop, 0.0)
        return x + self.out((p @ v).transpose(1, 2).reshape(B, N, D))
