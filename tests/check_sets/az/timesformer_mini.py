"""小型 TimeSformer（動作認識）。時間方向と空間方向の注意を順番に適用する。

入力の動画は (B, T, 3, H, W)。トークンは常に (B, T, N, C) の形で持つ（N = パッチ数）。
`last_maps` には可視化用に最後のブロックの注意の重み（各行の和は 1）が入る。
"""
import math

import torch
import torch.nn as nn


class PatchEmbed(nn.Module):
    def __init__(self, patch, dim):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, patch, patch)

    def forward(self, video):
        B, T = video.shape[:2]
        x = self.conv(video.flatten(0, 1)).flatten(2).transpose(1, 2)
        return x.view(B, T, x.shape[1], x.shape[2])


class AxisAttention(nn.Module):
    """(..., L, C) の L 方向のマルチヘッド自己注意。出力と重み (..., heads, L, L) を返す。"""

    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.hd = heads, dim // heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, self.hd).transpose(-3, -2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        att = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        y = self.drop(torch.softmax(att, dim=-1)) @ v
        y = y.reshape(x.shape)
        return self.o(y), att


class DividedBlock(nn.Module):
    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.nt, self.ns, self.nm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time, self.space = AxisAttention(dim, heads, drop), AxisAttention(dim, heads, drop)
        self.fc_t = nn.Linear(dim, dim)
        nn.init.zeros_(self.fc_t.weight)
        nn.init.zeros_(self.fc_t.bias)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        # 時間：同じ場所のパッチ同士
        h, at = self.time(self.nt(x).transpose(1, 2))
        x = x + self.fc_t(h.transpose(1, 2))
        # 空間：同じフレームのパッチ同士
        h, as_ = self.space(self.ns(x))
        x = x + h
        return x + self.mlp(self.nm(x)), (at, as_)


class TimeSformer(nn.Module):
    def __init__(self, size=32, frames=8, patch=8, dim=48, depth=2, heads=4, classes=10):
        super().__init__()
        self.embed = PatchEmbed(patch, dim)
        n = (size // patch) ** 2
        self.pos_space = nn.Parameter(0.02 * torch.randn(1, 1, n, dim))
        self.pos_time = nn.Parameter(0.02 * torch.randn(1, frames, 1, dim))
        self.blocks = nn.ModuleList(DividedBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)
        self.last_maps = None

    def forward(self, video):
        x = self.embed(video) + self.pos_space + self.pos_time[:, :video.shape[1]]
        for blk in self.blocks:
            x, maps = blk(x)
        self.last_maps = tuple(m.detach() for m in maps)
        return self.head(self.norm(x).mean((1, 2)))


def heat(maps, frame, grid):
    """1 フレームの平均の空間注意を (grid, grid) の画像にする。"""
    space = maps[1][:, frame].mean(1)                  # (B, N, N)
    return space.mean(1).view(-1, grid, grid)


def sample_frames(video, n, training):
    T = video.shape[1]
    edges = torch.linspace(0, T, n + 1)
    width = edges[1:] - edges[:-1]
    at = edges[:-1] + (torch.rand(n) if training else 0.5) * width
    return video[:, at.long().clamp(max=T - 1)]


if __name__ == "__main__":
    torch.manual_seed(0)
    clip = torch.randn(2, 30, 3, 32, 32)
    net = TimeSformer()
    print(net(sample_frames(clip, 8, training=False)).shape, heat(net.last_maps, 0, 4).shape)
