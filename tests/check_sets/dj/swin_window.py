"""Swin Transformer (Liu et al., 2021): (shifted) window multi-head self-attention.

    Attention(Q, K, V) = SoftMax(Q K^T / sqrt(d) + B) V

B comes from a table of (2M-1)(2M-1) relative offsets per head. For shifted windows an
additive mask keeps tokens that are not neighbours in the image apart.

The weights load from the official checkpoints. There the 3C output rows of `qkv` are
q (C rows), then k (C rows), then v (C rows), and inside each of the three the rows of
head 0 come first, then those of head 1, and so on.
"""
import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    """x (num_windows * B, M*M, C); mask None or (num_windows, M*M, M*M) with 0 = may read,
    -100 = apart; windows of one image are consecutive in x. Returns the shape of x."""

    def __init__(self, C=32, M=4, heads=4, p=0.0):
        super().__init__()
        self.heads, self.M = heads, M
        self.scale = (C // heads) ** -0.5
        self.table = nn.Parameter(torch.randn((2 * M - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(M), torch.arange(M), indexing="ij"))
        yx = yx.flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]).permute(1, 2, 0) + (M - 1)
        self.register_buffer("index", rel[..., 0] * (2 * M - 1) + rel[..., 1])
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.drop = nn.Dropout(p)

    def forward(self, x, mask=None):
        Bw, N, C = x.shape
        qkv = self.qkv(x).reshape(Bw, N, self.heads, 3, C // self.heads)
        q, k, v = qkv.permute(3, 0, 2, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)

        bias = self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(Bw // nW, nW, self.heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.heads, N, N)
        attn = self.drop(attn.softmax(dim=-1))

        x = (attn @ v).transpose(1, 2).reshape(Bw, N, C)
        return self.proj(x)


def shift_mask(H, W, M, s):
    """(num_windows, M*M, M*M) for an H x W map, window M, cyclic shift s."""
    img = torch.zeros(H, W)
    cuts = (slice(0, -M), slice(-M, -s), slice(-s, None))
    for n, (a, b) in enumerate((a, b) for a in cuts for b in cuts):
        img[a, b] = n
    w = img.view(H // M, M, W // M, M).transpose(1, 2).reshape(-1, M * M)
    return ((w[:, :, None] - w[:, None, :]) != 0).float() * -100.0
