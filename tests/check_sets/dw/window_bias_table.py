"""Attention inside M x M windows with a learned relative position bias.

WindowAttention(dim, M, heads)(x): x (num_windows, M*M, dim), pixels of a window row by row.

    softmax( q k^T / sqrt(dim/heads) + bias ) v

bias depends on the displacement (dy, dx) = query - key of the two pixels, dy and dx in
-(M-1)..(M-1).  Each of the (2M-1)^2 displacements has its own row of `table`; two pairs of
pixels with different displacements never share one.
"""
import torch
import torch.nn as nn


class WindowAttention(nn.Module):
    def __init__(self, dim, M, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.randn((2 * M - 1) * (2 * M - 1), heads) * 0.02)

        c = torch.arange(M)
        grid = torch.stack(torch.meshgrid(c, c, indexing="ij")).flatten(1)   # 2, M*M
        rel = grid[:, :, None] - grid[:, None, :]                            # 2, N, N
        rel = rel.permute(1, 2, 0).contiguous()
        rel[..., 0] += M - 1
        rel[..., 1] += M - 1
        rel[..., 0] *= M
        self.register_buffer("rel_index", rel.sum(-1))

        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        n, N, C = x.shape
        qkv = self.qkv(x).reshape(n, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0] * self.scale, qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.table[self.rel_index.view(-1)].view(N, N, self.heads).permute(2, 0, 1)
        attn = (attn + bias[None]).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(n, N, C))
