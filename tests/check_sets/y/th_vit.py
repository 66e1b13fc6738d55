"""CaiT-ish image classifier with talking heads and class attention."""
import torch
import torch.nn as nn


class Mlp(nn.Module):
    def __init__(self, d, r=4., drop=0.):
        super().__init__()
        self.a, self.b = nn.Linear(d, int(d * r)), nn.Linear(int(d * r), d)
        self.act, self.drop = nn.GELU(), nn.Dropout(drop)

    def forward(self, x):
        return self.drop(self.b(self.drop(self.act(self.a(x)))))


class DropPath(nn.Module):
    def __init__(self, p=0.):
        super().__init__()
        self.p = p

    def forward(self, x):
        if not self.training or self.p == 0.:
            return x
        keep = 1 - self.p
        m = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        return x * m / keep


class TalkingHeadAttn(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=False, attn_drop=0., proj_drop=0.):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.proj_l = nn.Linear(num_heads, num_heads)
        self.proj_w = nn.Linear(num_heads, num_heads)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = self.attn_drop(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class ClassAttn(nn.Module):
    def __init__(self, dim, num_heads=4):
        super().__init__()
        self.nh = num_heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        sp = lambda t: t.reshape(B, -1, self.nh, C // self.nh).transpose(1, 2)
        q = sp(self.q(x[:, :1])) * (C // self.nh) ** -0.5
        a = (q @ sp(self.k(x)).transpose(-2, -1)).softmax(-1)
        return self.proj((a @ sp(self.v(x))).transpose(1, 2).reshape(B, 1, C))


class LayerScaleBlock(nn.Module):
    def __init__(self, dim, heads, init=1e-1, dp=0.):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn, self.mlp = TalkingHeadAttn(dim, heads), Mlp(dim)
        self.g1 = nn.Parameter(init * torch.ones(dim))
        self.g2 = nn.Parameter(init * torch.ones(dim))
        self.dp = DropPath(dp)

    def forward(self, x):
        x = x + self.dp(self.g1 * self.attn(self.norm1(x)))
        return x + self.dp(self.g2 * self.mlp(self.norm2(x)))


class CaiTiny(nn.Module):
    def __init__(self, img=16, patch=4, dim=32, depth=2, heads=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * .02)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * .02)
        self.blocks = nn.Sequential(*[LayerScaleBlock(dim, heads) for _ in range(depth)])
        self.norm_c, self.ca = nn.LayerNorm(dim), ClassAttn(dim, heads)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)

    def forward(self, im):
        x = self.patch(im).flatten(2).transpose(1, 2) + self.pos
        x = self.blocks(x)
        c = self.cls.expand(x.size(0), -1, -1)
        c = c + self.ca(self.norm_c(torch.cat((c, x), 1)))
        return self.head(self.norm(c)[:, 0])
