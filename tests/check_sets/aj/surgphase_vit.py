"""Surgical phase recognition from clips; divided space-time attention (TimeSformer).

Token order in a clip: [CLS] followed by patch-major tokens, i.e. for every patch position
all frames:  (cls, p0t0, p0t1, ..., p0tT-1, p1t0, ...).
"""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=True, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.scale = head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class Mlp(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


class DividedBlock(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4., drop=0., attn_drop=0.):
        super().__init__()
        self.temporal_norm1 = nn.LayerNorm(dim)
        self.temporal_attn = Attention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.temporal_fc = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, num_heads, attn_drop=attn_drop, proj_drop=drop)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, int(dim * mlp_ratio))

    def forward(self, x, T):
        B, n_tok, D = x.shape
        P = (n_tok - 1) // T

        # time: every patch position sees its own history
        xt = x[:, 1:].reshape(B * P, T, D)
        res = self.temporal_fc(self.temporal_attn(self.temporal_norm1(xt)))
        xt = x[:, 1:] + res.reshape(B, P * T, D)

        # space: every frame on its own, with a copy of the class token
        cls = x[:, :1]
        cls_rep = cls.repeat_interleave(T, dim=0)                                # (B T) 1 D
        xs = xt.reshape(B, P, T, D).transpose(1, 2).reshape(B * T, P, D)
        res = self.attn(self.norm1(torch.cat([cls_rep, xs], dim=1)))
        res_cls = res[:, 0].reshape(B, T, D).mean(1, keepdim=True)
        res_patch = res[:, 1:].reshape(B, T, P, D).transpose(1, 2).reshape(B, P * T, D)

        x = torch.cat([cls + res_cls, xt + res_patch], dim=1)
        return x + self.mlp(self.norm2(x))


class PhaseViT(nn.Module):
    def __init__(self, img=64, patch=16, frames=8, dim=96, depth=4, heads=6, phases=7, in_chans=3):
        super().__init__()
        self.T = frames
        self.embed = nn.Conv2d(in_chans, dim, patch, patch)
        n = (img // patch) ** 2
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.zeros(1, n, 1, dim))
        self.time = nn.Parameter(torch.zeros(1, 1, frames, dim))
        self.blocks = nn.ModuleList([DividedBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, phases)
        nn.init.trunc_normal_(self.cls_token, std=.02)
        nn.init.trunc_normal_(self.pos, std=.02)

    def forward(self, clip):
        """clip [B, C, T, H, W] -> [B, phases]"""
        B, C, T, H, W = clip.shape
        x = self.embed(clip.transpose(1, 2).reshape(B * T, C, H, W)).flatten(2)    # (B T) D P
        x = x.reshape(B, T, -1, x.shape[-1]).permute(0, 3, 1, 2)                   # B P T D
        x = (x + self.pos + self.time).flatten(1, 2)
        x = torch.cat([self.cls_token.expand(B, -1, -1), x], dim=1)
        for blk in self.blocks:
            x = blk(x, T)
        return self.head(self.norm(x[:, 0]))
