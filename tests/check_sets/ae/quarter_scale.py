import torch
from torch import nn


class UNetAttentionBlock(nn.Module):
    """Self-attention over the pixels of a diffusion U-Net feature map (B, C, H, W).

    The scale is put on q and k separately, which is safer in half precision.
    """

    def __init__(self, channels, num_heads=1, groups=8):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(groups, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)
        nn.init.normal_(self.proj_out.weight, std=0.02)

    def forward(self, x):
        b, c, *spatial = x.shape
        h = self.norm(x.reshape(b, c, -1))
        n = h.shape[-1]
        qkv = self.qkv(h).reshape(b * self.num_heads, -1, n)
        ch = qkv.shape[1] // 3
        q, k, v = qkv.split(ch, dim=1)
        s = ch ** -0.25
        w = torch.einsum("bct,bcs->bts", q * s, k * s)
        w = torch.softmax(w.float(), dim=-1).type(w.dtype)
        h = torch.einsum("bts,bcs->bct", w, v).reshape(b, c, n)
        return x + self.proj_out(h).reshape(b, c, *spatial)
