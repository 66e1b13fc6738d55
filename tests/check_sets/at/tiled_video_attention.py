"""Memory-light exact attention for long surveillance videos on old GPUs.

Keys are visited tile by tile with the running maximum and running sum of the
softmax, so the [T, T] matrix never exists. Equal to ordinary attention.
"""
import torch
import torch.nn as nn


def tiled_attention(q, k, v, key_valid=None, q_tile=64, k_tile=64):
    """q (B, H, Tq, D), k (B, H, Tk, D), v (B, H, Tk, Dv); key_valid (B, Tk) True = frame exists."""
    B, H, Tq, D = q.shape
    Tk = k.shape[2]
    out = q.new_empty(B, H, Tq, v.shape[-1])
    scale = D ** -0.5
    for a in range(0, Tq, q_tile):
        qb = q[:, :, a:a + q_tile] * scale
        n = qb.shape[2]
        acc = q.new_zeros(B, H, n, v.shape[-1])
        row_sum = q.new_zeros(B, H, n, 1)
        row_max = q.new_full((B, H, n, 1), -1e30)
        for c in range(0, Tk, k_tile):
            s = qb @ k[:, :, c:c + k_tile].transpose(-1, -2)
            if key_valid is not None:
                s = s.masked_fill(~key_valid[:, None, None, c:c + k_tile], float("-inf"))
            new_max = torch.maximum(row_max, s.amax(-1, keepdim=True))
            p = torch.exp(s - new_max)
            fix = torch.exp(row_max - new_max)
            row_sum = row_sum * fix + p.sum(-1, keepdim=True)
            acc = acc + p @ v[:, :, c:c + k_tile]
            row_max = new_max
        out[:, :, a:a + n] = acc / row_sum.clamp(min=1e-20)
    return out


class TubeletEmbed(nn.Module):
    def __init__(self, dim, size=(2, 16, 16)):
        super().__init__()
        self.proj = nn.Conv3d(3, dim, size, size)

    def forward(self, clip):
        return self.proj(clip).flatten(2).transpose(1, 2)


class VideoBlock(nn.Module):
    def __init__(self, dim, heads, tile=64):
        super().__init__()
        self.heads, self.tile = heads, tile
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, valid=None):
        B, T, C = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = tiled_attention(q, k, v, valid, self.tile, self.tile)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.n2(x))


class LoiteringNet(nn.Module):
    def __init__(self, dim=96, heads=4, depth=4, classes=3):
        super().__init__()
        self.embed = TubeletEmbed(dim)
        self.blocks = nn.ModuleList(VideoBlock(dim, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, clip):
        x = self.embed(clip)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x).mean(1))
