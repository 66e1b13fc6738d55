"""TimeSformer, divided space-time attention block (Bertasius et al. 2021), no class token.

x : (B, F * P, D): F frames with P patches each, frame after frame
    (token index = frame * P + patch).

1. time attention : a patch attends to the patches at the same place in all frames
2. space attention: a patch attends to all patches of its own frame
3. MLP
each pre-normed and with a residual connection.  Returns (B, F * P, D).
"""
import torch.nn as nn
import torch.nn.functional as F


class MHSA(nn.Module):
    """Plain self-attention over the second to last axis; leading axes are batch."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        *lead, n, d = x.shape
        qkv = self.qkv(x).view(*lead, n, 3, self.heads, d // self.heads)
        q, k, v = (t.transpose(-2, -3) for t in qkv.unbind(-3))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(-2, -3).flatten(-2))


class DividedBlock(nn.Module):
    def __init__(self, dim, heads, frames, mlp_ratio=4):
        super().__init__()
        self.frames = frames
        self.norm_t, self.norm_s, self.norm_m = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.time, self.space = MHSA(dim, heads), MHSA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x):
        B, N, D = x.shape
        x = x.view(B, self.frames, N // self.frames, D)          # b f p d
        t = x.permute(0, 2, 1, 3)                                # b p f d
        x = x + self.time(self.norm_t(t)).permute(0, 2, 1, 3)
        x = x + self.space(self.norm_s(x))
        x = x + self.mlp(self.norm_m(x))
        return x.reshape(B, N, D)
