"""Middle block of a text-conditioned U-Net: ResNet block, attention to the text, ResNet block.

    feat      (B, C, H, W)
    text      (B, S, text_dim), output of the text encoder, padded to S
    text_pad  (B, S) bool: True at the padding positions, which must not influence the
              image; False at the words. Each prompt has at least one word.
    returns   (B, C, H, W)

Pixels are the queries; keys and values are computed from the text. The attention is
added to the feature map (residual).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ResBlock(nn.Module):
    def __init__(self, c, groups=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.GroupNorm(groups, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
            nn.GroupNorm(groups, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1))

    def forward(self, x):
        return x + self.net(x)


class TextAttention(nn.Module):
    def __init__(self, c, text_dim, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, c)
        self.norm_text = nn.LayerNorm(text_dim)
        self.q = nn.Conv2d(c, c, 1)
        self.kv = nn.Linear(text_dim, 2 * c)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, feat, text, text_pad):
        B, C, H, W = feat.shape
        h, d = self.heads, C // self.heads
        q = self.q(self.norm(feat)).view(B, h, d, H * W).transpose(2, 3)
        k, v = self.kv(self.norm_text(text)).chunk(2, dim=-1)
        k = k.view(B, -1, h, d).transpose(1, 2)
        v = v.view(B, -1, h, d).transpose(1, 2)
        mask = text_pad[:, None, None, :].expand(B, h, H * W, -1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = y.transpose(2, 3).reshape(B, C, H, W)
        return feat + self.out(y)


class UNetMid(nn.Module):
    def __init__(self, c=32, text_dim=24, heads=4):
        super().__init__()
        self.res1 = ResBlock(c)
        self.attn = TextAttention(c, text_dim, heads)
        self.res2 = ResBlock(c)

    def forward(self, feat, text, text_pad):
        return self.res2(self.attn(self.res1(feat), text, text_pad))
