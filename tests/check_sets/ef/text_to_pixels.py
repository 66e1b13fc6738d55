"""Text conditioning for the 64px sprite diffusion model.

SpriteCrossAttention: every pixel of a feature map asks the prompt tokens
(multi-head scaled dot-product attention) and the answer of a pixel is added
to that same pixel.

    fmap   (B, C, H, W)
    tokens (B, L, E)        prompt embedding, no padding
    return (B, C, H, W)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpriteCrossAttention(nn.Module):
    def __init__(self, C=32, E=20, heads=4, groups=8):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(groups, C)
        self.ask = nn.Conv2d(C, C, 1, bias=False)
        self.tell = nn.Linear(E, 2 * C, bias=False)
        self.back = nn.Linear(C, C)

    def forward(self, fmap, tokens):
        B, C, H, W = fmap.shape
        q = self.ask(self.norm(fmap)).flatten(2).transpose(1, 2)      # B, HW, C
        k, v = self.tell(tokens).chunk(2, dim=-1)                      # B, L, C

        def cut(t):
            return t.reshape(B, -1, self.heads, C // self.heads).transpose(1, 2)

        o = F.scaled_dot_product_attention(cut(q), cut(k), cut(v))
        o = self.back(o.transpose(1, 2).reshape(B, H * W, C))
        o = o.transpose(1, 2).reshape(B, C, W, H)
        o = o.transpose(2, 3)
        return fmap + o
