"""Light-weight transformer blocks for the on-device classifier.

Feature maps stay NCHW; for the transformer part they are unfolded to
[batch, channels, P, N] where P indexes the pixel inside a patch and N the patch.
"""
import torch
from torch import nn
import torch.nn.functional as F


def conv_bn_act(inp, oup, k=3, s=1, groups=1, act=True):
    layers = [nn.Conv2d(inp, oup, k, s, k // 2, groups=groups, bias=False), nn.BatchNorm2d(oup)]
    if act:
        layers.append(nn.SiLU(inplace=True))
    return nn.Sequential(*layers)


class InvertedResidual(nn.Module):
    def __init__(self, inp, oup, stride=1, expand=2):
        super().__init__()
        mid = inp * expand
        self.body = nn.Sequential(
            conv_bn_act(inp, mid, 1),
            conv_bn_act(mid, mid, 3, stride, groups=mid),
            conv_bn_act(mid, oup, 1, act=False),
        )
        self.skip = stride == 1 and inp == oup

    def forward(self, x):
        y = self.body(x)
        return x + y if self.skip else y


class SeparableSelfAttention(nn.Module):
    """Separable self-attention of linear cost (Mehta & Rastegari 2022).

    A single scalar score per token, normalised over the N patches, weights the
    keys into one context vector; the context vector gates the values.
    There is no query-key product and hence no 1/sqrt(d).
    """

    def __init__(self, dim, attn_drop=0.0, bias=True):
        super().__init__()
        self.dim = dim
        self.qkv_proj = nn.Conv2d(dim, 1 + 2 * dim, kernel_size=1, bias=bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.out_proj = nn.Conv2d(dim, dim, kernel_size=1, bias=bias)

    def forward(self, x):
        # x: [B, C, P, N]
        query, key, value = torch.split(self.qkv_proj(x), [1, self.dim, self.dim], dim=1)
        scores = F.softmax(query, dim=-1)                            # [B, 1, P, N]
        scores = self.attn_drop(scores)
        context = (key * scores).sum(dim=-1, keepdim=True)           # [B, C, P, 1]
        out = F.relu(value) * context.expand_as(value)
        return self.out_proj(out)


class LinearAttnFFN(nn.Module):
    def __init__(self, dim, ffn_dim, drop=0.0):
        super().__init__()
        self.norm1 = nn.GroupNorm(1, dim)
        self.attn = SeparableSelfAttention(dim, drop)
        self.norm2 = nn.GroupNorm(1, dim)
        self.ffn = nn.Sequential(nn.Conv2d(dim, ffn_dim, 1), nn.SiLU(), nn.Dropout(drop),
                                 nn.Conv2d(ffn_dim, dim, 1))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class MobileBlock(nn.Module):
    def __init__(self, inp, dim, depth, patch=2):
        super().__init__()
        self.patch = patch
        self.local = nn.Sequential(conv_bn_act(inp, inp, 3, groups=inp), nn.Conv2d(inp, dim, 1, bias=False))
        self.layers = nn.Sequential(*[LinearAttnFFN(dim, 2 * dim) for _ in range(depth)])
        self.proj = conv_bn_act(dim, inp, 1, act=False)

    def unfold(self, x):
        b, c, h, w = x.shape
        p = self.patch
        x = x.reshape(b, c, h // p, p, w // p, p).permute(0, 1, 3, 5, 2, 4)
        return x.reshape(b, c, p * p, (h // p) * (w // p))

    def fold(self, x, h, w):
        b, c = x.shape[:2]
        p = self.patch
        x = x.reshape(b, c, p, p, h // p, w // p).permute(0, 1, 4, 2, 5, 3)
        return x.reshape(b, c, h, w)

    def forward(self, x):
        h, w = x.shape[-2:]
        if h % self.patch or w % self.patch:
            x = F.interpolate(x, size=(-(-h // self.patch) * self.patch, -(-w // self.patch) * self.patch),
                              mode="bilinear", align_corners=False)
        hh, ww = x.shape[-2:]
        y = self.fold(self.layers(self.unfold(self.local(x))), hh, ww)
        return self.proj(y)
