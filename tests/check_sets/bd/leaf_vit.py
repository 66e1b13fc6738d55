"""Plant-disease ViT: class-attention stage and talking-heads stage (CaiT style)."""
import torch
import torch.nn as nn


class TalkingHeads(nn.Module):
    """Self attention whose logits and whose weights are mixed across heads by small linear maps.

    The second map acts after the softmax, so rows of the mixed weights need not sum to 1.
    """

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


class LayerScale(nn.Module):
    def __init__(self, dim, init=1e-4):
        super().__init__()
        self.g = nn.Parameter(init * torch.ones(dim))

    def forward(self, x):
        return x * self.g


class Stage(nn.Module):
    def __init__(self, dim, heads, ratio=3.):
        super().__init__()
        hid = int(dim * ratio)
        self.n1, self.n2 = nn.LayerNorm(dim, eps=1e-6), nn.LayerNorm(dim, eps=1e-6)
        self.attn = TalkingHeads(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, hid), nn.GELU(), nn.Linear(hid, dim))
        self.s1, self.s2 = LayerScale(dim), LayerScale(dim)

    def forward(self, x):
        x = x + self.s1(self.attn(self.n1(x)))
        return x + self.s2(self.mlp(self.n2(x)))


class LeafViT(nn.Module):
    def __init__(self, img=32, patch=8, dim=48, heads=4, depth=2, classes=38):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * .02)
        self.stages = nn.Sequential(*[Stage(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos
        return self.head(self.norm(self.stages(x)).mean(dim=1))
