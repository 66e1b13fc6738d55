import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, dim, ratio=4):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim * ratio)
        self.fc2 = nn.Linear(dim * ratio, dim)

    def forward(self, x):
        return self.fc2(nn.functional.gelu(self.fc1(x)))


class TemporalBlock(nn.Module):
    """
    Temporal half of a divided space-time block (TimeSformer like).
    Every patch looks at the same patch in the other frames of its own clip,
    and at nothing else.

    input / output: clip tokens [batch, frames, patches, dim]
    """

    def __init__(self, dim=96, heads=4, max_frames=32):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.time_embed = nn.Parameter(torch.randn(max_frames, dim) * 0.02)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.temporal_fc = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim)

    def forward(self, x):
        b, t, n, d = x.shape
        h = x + self.time_embed[:t, None, :]
        # one sequence of frames per patch
        h = h.permute(0, 2, 1, 3).reshape(b * n, t, d)
        h = self.norm1(h)
        h, _ = self.attn(h, h, h, need_weights=False)
        h = self.temporal_fc(h)
        h = h.view(b, n, t, d).permute(0, 2, 1, 3)
        x = x + h
        return x + self.mlp(self.norm2(x))


class ClipHead(nn.Module):
    def __init__(self, dim=96, classes=400):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, x):
        return self.fc(self.norm(x.mean(dim=(1, 2))))


class TinyVideoNet(nn.Module):
    def __init__(self, dim=96, depth=2, heads=4, patch=16, classes=400):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.blocks = nn.ModuleList([TemporalBlock(dim, heads) for _ in range(depth)])
        self.head = ClipHead(dim, classes)

    def forward(self, video):
        b, t = video.shape[:2]
        x = self.patch(video.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = x.view(b, t, x.shape[1], x.shape[2])
        for blk in self.blocks:
            x = blk(x)
        return self.head(x)
