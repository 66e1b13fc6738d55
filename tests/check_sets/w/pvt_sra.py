import torch
from torch import nn


class DWConv(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, 3, 1, 1, groups=dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        x = x.transpose(1, 2).view(B, C, H, W)
        return self.dwconv(x).flatten(2).transpose(1, 2)


class SRAttention(nn.Module):
    """Spatial-reduction attention: keys and values come from a feature map shrunk by `sr_ratio`."""

    def __init__(self, dim, num_heads=2, qkv_bias=True, sr_ratio=2, drop=0.0):
        super().__init__()
        assert dim % num_heads == 0, f"dim {dim} should be divided by num_heads {num_heads}."
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=qkv_bias)
        self.kv = nn.Linear(dim, dim * 2, bias=qkv_bias)
        self.attn_drop = nn.Dropout(drop)
        self.proj = nn.Linear(dim, dim)
        self.sr_ratio = sr_ratio
        if sr_ratio > 1:
            self.sr = nn.Conv2d(dim, dim, kernel_size=sr_ratio, stride=sr_ratio)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x, H, W):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)

        if self.sr_ratio > 1:
            x_ = x.permute(0, 2, 1).reshape(B, C, H, W)
            x_ = self.sr(x_).reshape(B, C, -1).permute(0, 2, 1)
            x_ = self.norm(x_)
        else:
            x_ = x
        kv = self.kv(x_).reshape(B, -1, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        k, v = kv[0], kv[1]

        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)

        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class PVTStage(nn.Module):
    def __init__(self, in_ch=3, dim=32, patch=4, num_heads=2, sr_ratio=2):
        super().__init__()
        self.embed = nn.Conv2d(in_ch, dim, patch, patch)
        self.norm0 = nn.LayerNorm(dim)
        self.norm1 = nn.LayerNorm(dim)
        self.attn = SRAttention(dim, num_heads, sr_ratio=sr_ratio)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim * 4)
        self.dw = DWConv(dim * 4)
        self.fc2 = nn.Linear(dim * 4, dim)

    def forward(self, img):
        x = self.embed(img)
        B, C, H, W = x.shape
        x = self.norm0(x.flatten(2).transpose(1, 2))
        x = x + self.attn(self.norm1(x), H, W)
        y = self.fc1(self.norm2(x))
        y = nn.functional.gelu(self.dw(y, H, W))
        x = x + self.fc2(y)
        return x.transpose(1, 2).reshape(B, C, H, W)
