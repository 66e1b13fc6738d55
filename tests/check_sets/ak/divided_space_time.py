"""Video encoder with divided space-time attention (TimeSformer style, no class token).

Clips are [B, T, H, W, C] after patch embedding. `frame_ok` [B, T] is True for real frames; short
clips are filled up with blank ones.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ClipCfg:
    dim: int = 48
    heads: int = 4
    depth: int = 2
    patch: int = 4
    size: int = 16
    frames: int = 8
    drop: float = 0.0


class TokenAttention(nn.Module):
    """Plain self-attention over axis 1 of [N, L, C]; `ok` [N, L] marks tokens that may be read."""

    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.heads = heads
        self.drop = drop
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, ok=None):
        N, L, C = x.shape
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(N, L, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        mask = None if ok is None else ok[:, None, None, :]
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.drop if self.training else 0.0)
        return self.to_out(y.transpose(1, 2).flatten(2))


class DividedBlock(nn.Module):
    def __init__(self, cfg: ClipCfg):
        super().__init__()
        self.n_t = nn.LayerNorm(cfg.dim)
        self.time = TokenAttention(cfg.dim, cfg.heads, cfg.drop)
        self.time_fc = nn.Linear(cfg.dim, cfg.dim)
        self.n_s = nn.LayerNorm(cfg.dim)
        self.space = TokenAttention(cfg.dim, cfg.heads, cfg.drop)
        self.n_m = nn.LayerNorm(cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(),
                                 nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x, frame_ok=None):
        B, T, H, W, C = x.shape
        # one sequence of T tokens for every place in the image
        t = self.n_t(x).permute(0, 2, 3, 1, 4).reshape(B * H * W, T, C)
        ok = None if frame_ok is None else frame_ok.repeat_interleave(H * W, dim=0)
        t = self.time_fc(self.time(t, ok))
        x = x + t.view(B, H, W, T, C).permute(0, 3, 1, 2, 4)
        # one sequence of H*W tokens for every frame
        s = self.space(self.n_s(x).reshape(B * T, H * W, C))
        x = x + s.view(B, T, H, W, C)
        return x + self.mlp(self.n_m(x))


class ClipEncoder(nn.Module):
    def __init__(self, cfg: ClipCfg = ClipCfg()):
        super().__init__()
        side = cfg.size // cfg.patch
        self.embed = nn.Conv2d(3, cfg.dim, cfg.patch, stride=cfg.patch)
        self.pos = nn.Parameter(torch.randn(1, 1, side, side, cfg.dim) * 0.02)
        self.when = nn.Parameter(torch.randn(1, cfg.frames, 1, 1, cfg.dim) * 0.02)
        self.blocks = nn.ModuleList(DividedBlock(cfg) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, video, frame_ok=None):
        B, T = video.shape[:2]
        x = self.embed(video.flatten(0, 1))
        x = x.permute(0, 2, 3, 1).unflatten(0, (B, T))
        x = x + self.pos + self.when[:, :T]
        for blk in self.blocks:
            x = blk(x, frame_ok)
        x = self.norm(x).mean((2, 3))
        if frame_ok is None:
            return x.mean(1)
        w = frame_ok.to(x.dtype).unsqueeze(-1)
        return (x * w).sum(1) / w.sum(1).clamp(min=1)


def pad_clips(clips):
    """list of [T_i, 3, H, W] -> batch, frame_ok"""
    T = max(c.shape[0] for c in clips)
    ok = torch.zeros(len(clips), T, dtype=torch.bool)
    out = clips[0].new_zeros(len(clips), T, *clips[0].shape[1:])
    for i, c in enumerate(clips):
        out[i, :len(c)] = c
        ok[i, :len(c)] = True
    return out, ok


if __name__ == "__main__":
    net = ClipEncoder().eval()
    v, ok = pad_clips([torch.randn(8, 3, 16, 16), torch.randn(5, 3, 16, 16)])
    print(net(v, ok).shape)
