"""LiDAR sweep -> BEV boxes with a Perceiver IO: latents read the points, box queries read the latents."""
import torch
from torch import nn
import torch.nn.functional as F


def fourier(xyz, bands=6):
    f = 2.0 ** torch.arange(bands, device=xyz.device)
    a = (xyz[..., None] * f * torch.pi).flatten(-2)
    return torch.cat([xyz, a.sin(), a.cos()], -1)


class PreNormAttention(nn.Module):
    def __init__(self, q_dim, kv_dim, heads=4, dim_head=16):
        super().__init__()
        self.heads, self.dim_head = heads, dim_head
        self.nq = nn.LayerNorm(q_dim)
        self.nkv = nn.LayerNorm(kv_dim)
        self.wq = nn.Linear(q_dim, heads * dim_head, bias=False)
        self.wkv = nn.Linear(kv_dim, 2 * heads * dim_head, bias=False)
        self.wo = nn.Linear(heads * dim_head, q_dim)

    def forward(self, q_in, kv_in=None, pad=None):
        """pad [B, Nkv]: True where the sweep was filled up with dummy points."""
        B, Nq, _ = q_in.shape
        q_in = self.nq(q_in)
        kv_in = q_in if kv_in is None else self.nkv(kv_in)
        q = self.wq(q_in).view(B, Nq, self.heads, self.dim_head)
        kv = self.wkv(kv_in).view(B, kv_in.size(1), 2, self.heads, self.dim_head)
        k, v = kv.unbind(2)
        mask = None if pad is None else ~pad[:, None, None, :]
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                           attn_mask=mask)
        return self.wo(o.transpose(1, 2).flatten(2))


class FF(nn.Sequential):
    def __init__(self, d):
        super().__init__(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))


class PerceiverLidar(nn.Module):
    def __init__(self, n_latents=32, dim=64, depth=2, queries=20, classes=3, bands=6):
        super().__init__()
        self.bands = bands
        point_dim = 3 * (1 + 2 * bands) + 1
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.02)
        self.box_q = nn.Parameter(torch.randn(queries, dim) * 0.02)
        self.read = PreNormAttention(dim, point_dim)
        self.read_ff = FF(dim)
        self.trunk = nn.ModuleList(nn.ModuleList([PreNormAttention(dim, dim), FF(dim)]) for _ in range(depth))
        self.decode = PreNormAttention(dim, dim)
        self.box = nn.Linear(dim, 7)
        self.cls = nn.Linear(dim, classes + 1)

    def forward(self, points, pad=None):
        """points [B, N, 4] (x, y, z, reflectance), xyz scaled to [-1, 1]"""
        B = points.size(0)
        feats = torch.cat([fourier(points[..., :3], self.bands), points[..., 3:]], -1)
        z = self.latents.expand(B, -1, -1)
        z = z + self.read(z, feats, pad)
        z = z + self.read_ff(z)
        for att, ff in self.trunk:
            z = z + att(z)
            z = z + ff(z)
        q = self.box_q.expand(B, -1, -1)
        q = q + self.decode(q, z)
        return self.box(q), self.cls(q)


def collate(sweeps):
    n = max(len(s) for s in sweeps)
    out = torch.zeros(len(sweeps), n, 4)
    pad = torch.ones(len(sweeps), n, dtype=torch.bool)
    for i, s in enumerate(sweeps):
        out[i, :len(s)] = s
        pad[i, :len(s)] = False
    return out, pad
