import torch
import torch.nn as nn


class MHSA(nn.Module):
    """x: (..., n, dim), attends over the last but one axis."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        lead, n, dim = x.shape[:-2], x.shape[-2], x.shape[-1]
        x = x.reshape(-1, n, dim)
        q, k, v = self.to_qkv(x).view(-1, n, 3, self.heads, dim // self.heads).unbind(2)
        sim = torch.einsum('bihd,bjhd->bhij', q, k) * (dim // self.heads) ** -0.5
        attn = sim.softmax(dim=-1)
        out = torch.einsum('bhij,bjhd->bhid', attn, v)
        return self.to_out(out.reshape(*lead, n, dim))


class DividedBlock(nn.Module):
    """TimeSformer block: time, then space, then MLP. Tokens are (B, T, S, dim)."""

    def __init__(self, dim, heads, mlp_ratio=4):
        super().__init__()
        self.norm_t, self.norm_s, self.norm_m = (nn.LayerNorm(dim) for _ in range(3))
        self.time = MHSA(dim, heads)
        self.space = MHSA(dim, heads)
        self.temporal_fc = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x):
        # tubes: same patch in every frame
        y = self.time(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        x = x + self.temporal_fc(y)
        # frames
        x = x + self.space(self.norm_s(x))
        return x + self.mlp(self.norm_m(x))


class VideoTransformer(nn.Module):
    def __init__(self, frames=8, size=64, patch=16, dim=96, depth=2, heads=4, classes=5):
        super().__init__()
        self.patch = patch
        s = (size // patch) ** 2
        self.proj = nn.Linear(3 * patch * patch, dim)
        self.pos_s = nn.Parameter(torch.randn(1, 1, s, dim) * 0.02)
        self.pos_t = nn.Parameter(torch.randn(1, frames, 1, dim) * 0.02)
        self.blocks = nn.ModuleList([DividedBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def patchify(self, v):
        # (B, 3, T, H, W) -> (B, T, S, 3*p*p)
        B, C, T, H, W = v.shape
        p = self.patch
        v = v.view(B, C, T, H // p, p, W // p, p)
        return v.permute(0, 2, 3, 5, 1, 4, 6).reshape(B, T, (H // p) * (W // p), -1)

    def forward(self, v):
        x = self.proj(self.patchify(v)) + self.pos_s + self.pos_t[:, :v.shape[2]]
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x).mean((1, 2)))
