"""Divided space-time attention (TimeSformer) for the driver monitoring clips.

Clips have up to T frames; frame_ok [B, T] is bool, False for frames that were only added to fill the clip.
Those frames must not be attended to.
"""
import torch
import torch.nn as nn


class FoldedMHA(nn.Module):
    """x [N, S, D]; key_ok bool [N, S], True = attend. Heads are folded into the batch for torch.bmm."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def fold(self, t):
        N, S, _ = t.shape
        return t.reshape(N, S, self.heads, self.hd).transpose(1, 2).reshape(N * self.heads, S, self.hd)

    def unfold(self, t, N):
        S = t.shape[1]
        return t.view(self.heads, N, S, self.hd).permute(1, 2, 0, 3).reshape(N, S, self.heads * self.hd)

    def forward(self, x, key_ok=None):
        N = x.shape[0]
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        att = torch.bmm(q, k.transpose(1, 2)) * self.hd ** -0.5
        if key_ok is not None:
            att = att + key_ok.repeat_interleave(self.heads, 0).unsqueeze(1)
        att = att.softmax(dim=-1)
        return self.out(self.unfold(torch.bmm(att, v), N))


class DividedBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.nt, self.ns, self.nm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time, self.space = FoldedMHA(dim, heads), FoldedMHA(dim, heads)
        self.temporal_fc = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, frame_ok=None):
        """x [B, T, P, D]"""
        B, T, P, D = x.shape
        t = x.transpose(1, 2).reshape(B * P, T, D)
        ok = None if frame_ok is None else frame_ok.repeat_interleave(P, dim=0)
        t = self.temporal_fc(self.time(self.nt(t), ok))
        x = x + t.view(B, P, T, D).transpose(1, 2)
        s = x.reshape(B * T, P, D)
        x = x + self.space(self.ns(s)).view(B, T, P, D)
        return x + self.mlp(self.nm(x))


class DriverClipNet(nn.Module):
    def __init__(self, dim=48, heads=4, depth=2, patch=8, size=32, frames=8, classes=10):
        super().__init__()
        n = (size // patch) ** 2
        self.embed = nn.Conv3d(3, dim, (1, patch, patch), (1, patch, patch))
        self.ps = nn.Parameter(torch.randn(1, 1, n, dim) * 0.02)
        self.pt = nn.Parameter(torch.randn(1, frames, 1, dim) * 0.02)
        self.blocks = nn.ModuleList(DividedBlock(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, clip, frame_ok=None):
        """clip [B, 3, T, H, W]"""
        x = self.embed(clip).flatten(3).permute(0, 2, 3, 1)
        x = x + self.ps + self.pt[:, : x.shape[1]]
        for b in self.blocks:
            x = b(x, frame_ok)
        x = self.norm(x).mean(2)
        if frame_ok is None:
            return self.head(x.mean(1))
        w = frame_ok.to(x.dtype).unsqueeze(-1)
        return self.head((x * w).sum(1) / w.sum(1).clamp(min=1))


def sample_frames(n_total, n_want):
    if n_total <= n_want:
        return list(range(n_total)) + [n_total - 1] * (n_want - n_total)
    step = n_total / n_want
    return [int(step * (i + 0.5)) for i in range(n_want)]
