import torch
from torch import nn, Tensor


class EfficientSelfAttention(nn.Module):
    """SegFormer: keys and values come from a map shrunk by sr_ratio"""

    def __init__(self, dim: int, heads: int, sr_ratio: int):
        super().__init__()
        self.heads, self.sr_ratio = heads, sr_ratio
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, dim * 2)
        self.proj = nn.Linear(dim, dim)
        if sr_ratio > 1:
            self.sr = nn.Conv2d(dim, dim, sr_ratio, sr_ratio)
            self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, H: int, W: int) -> Tensor:
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.heads, C // self.heads).permute(0, 2, 1, 3)
        if self.sr_ratio > 1:
            x = x.permute(0, 2, 1).reshape(B, C, H, W)
            x = self.sr(x).reshape(B, C, -1).permute(0, 2, 1)
            x = self.norm(x)
        k, v = self.kv(x).reshape(B, -1, 2, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).reshape(B, N, C)
        return self.proj(x)


class MixFFN(nn.Module):
    def __init__(self, c1, c2):
        super().__init__()
        self.fc1 = nn.Linear(c1, c2)
        self.dw = nn.Conv2d(c2, c2, 3, 1, 1, groups=c2)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(c2, c1)

    def forward(self, x, H, W):
        x = self.fc1(x)
        B, N, C = x.shape
        x = self.dw(x.transpose(1, 2).view(B, C, H, W)).flatten(2).transpose(1, 2)
        return self.fc2(self.act(x))


class MiTStage(nn.Module):
    """image map (B, in_ch, H, W) -> (B, dim, H / stride, W / stride)"""

    def __init__(self, in_ch=3, dim=32, heads=2, sr_ratio=2, depth=2, stride=4):
        super().__init__()
        self.embed = nn.Conv2d(in_ch, dim, 2 * stride - 1, stride, stride - 1)
        self.embed_norm = nn.LayerNorm(dim)
        self.attn = nn.ModuleList([EfficientSelfAttention(dim, heads, sr_ratio) for _ in range(depth)])
        self.ffn = nn.ModuleList([MixFFN(dim, 4 * dim) for _ in range(depth)])
        self.n1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.n2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])

    def forward(self, x):
        x = self.embed(x)
        B, C, H, W = x.shape
        x = self.embed_norm(x.flatten(2).transpose(1, 2))
        for a, f, n1, n2 in zip(self.attn, self.ffn, self.n1, self.n2):
            x = x + a(n1(x), H, W)
            x = x + f(n2(x), H, W)
        return x.transpose(1, 2).reshape(B, C, H, W)
