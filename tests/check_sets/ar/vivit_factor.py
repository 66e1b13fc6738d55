"""ViViT model 3 (factorised self-attention) for sign-language clips.  video: b, t, p, dim

First every frame attends inside itself, then every patch attends through time.
Scaled dot-product attention as in Vaswani et al., eq. 1.
"""
import torch
import torch.nn as nn


class FactorAttention(nn.Module):
    def __init__(self, dim, num_heads=8, axis="space", qkv_bias=False):
        super().__init__()
        assert axis in ("space", "time")
        self.axis = axis
        self.num_heads = num_heads
        self.scale = num_heads ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        if self.axis == "time":
            x = x.transpose(1, 2)
        b, g, n, c = x.shape                    # g groups of n tokens
        qkv = self.qkv(x).reshape(b, g, n, 3, self.num_heads, c // self.num_heads)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        x = (attn @ v).transpose(2, 3).reshape(b, g, n, c)
        x = self.proj(x)
        return x.transpose(1, 2) if self.axis == "time" else x


class Encoder(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=4):
        super().__init__()
        self.space, self.time = FactorAttention(dim, heads, "space"), FactorAttention(dim, heads, "time")
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def forward(self, x):
        x = x + self.space(self.n[0](x))
        x = x + self.time(self.n[1](x))
        return x + self.mlp(self.n[2](x))


class TubeletEmbed(nn.Module):
    def __init__(self, dim, tube=(2, 8, 8)):
        super().__init__()
        self.conv = nn.Conv3d(3, dim, tube, tube)

    def forward(self, v):                       # b, 3, T, H, W
        return self.conv(v).flatten(3).permute(0, 2, 3, 1)


class SignNet(nn.Module):
    def __init__(self, dim=32, depth=2, heads=2, classes=20, t=4, p=16):
        super().__init__()
        self.emb = TubeletEmbed(dim)
        self.pos = nn.Parameter(torch.randn(1, t, p, dim) * 0.02)
        self.enc = nn.Sequential(*[Encoder(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, v):
        return self.head(self.enc(self.emb(v) + self.pos).mean((1, 2)))


if __name__ == "__main__":
    print(SignNet()(torch.rand(2, 3, 8, 32, 32)).shape)
