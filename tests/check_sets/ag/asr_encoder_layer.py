# Copyright (c) the speech-lab authors. Apache 2.0
from typing import Optional, Tuple

import torch
from torch import Tensor, nn


def make_pad_mask(lengths: Tensor, max_len: Optional[int] = None) -> Tensor:
    """
    >>> make_pad_mask(torch.tensor([1, 3]))
    tensor([[False,  True,  True],
            [False, False, False]])
    """
    max_len = max_len or int(lengths.max())
    r = torch.arange(max_len, device=lengths.device)
    return r.expand(lengths.numel(), max_len) >= lengths.unsqueeze(-1)


def chunk_mask(size: int, chunk: int, left_chunks: int = -1) -> Tensor:
    """(size, size), True = forbidden. Streaming: a frame sees its chunk and `left_chunks`
    chunks before it (all of them when negative)."""
    c = torch.arange(size) // chunk
    bad = c[None, :] > c[:, None]
    if left_chunks >= 0:
        bad = bad | (c[None, :] < c[:, None] - left_chunks)
    return bad


class MultiheadSelfAttention(nn.Module):
    """Input (T, B, C), as everywhere in this toolkit.

    key_padding_mask: (B, T), True at padding
    attn_mask: (T, T), True = forbidden
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = dropout

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        attn_mask: Optional[Tensor] = None,
    ) -> Tuple[Tensor, Tensor]:
        T, B, C = x.shape
        h, d = self.num_heads, self.head_dim
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = (q * d ** -0.5).contiguous().view(T, B * h, d).transpose(0, 1)
        k = k.contiguous().view(T, B * h, d).permute(1, 2, 0)
        v = v.contiguous().view(T, B * h, d).transpose(0, 1)

        w = torch.bmm(q, k).float()
        fill = torch.finfo(w.dtype).min
        if attn_mask is not None:
            w = w.masked_fill(attn_mask, fill)
        if key_padding_mask is not None:
            pad = key_padding_mask.unsqueeze(1).repeat(h, 1, 1)
            w = w.masked_fill(pad, fill)
        w = torch.softmax(w, dim=-1).type_as(v)
        y = torch.bmm(nn.functional.dropout(w, self.dropout, self.training), v)
        y = y.transpose(0, 1).reshape(T, B, C)
        return self.out_proj(y), w.view(B, h, T, T).mean(1)


class ConvModule(nn.Module):
    def __init__(self, channels: int, kernel: int = 15):
        super().__init__()
        self.pw1 = nn.Conv1d(channels, 2 * channels, 1)
        self.dw = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels)
        self.norm = nn.BatchNorm1d(channels)
        self.pw2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor, pad: Optional[Tensor] = None) -> Tensor:
        y = x.permute(1, 2, 0)
        y = nn.functional.glu(self.pw1(y), dim=1)
        if pad is not None:
            y = y.masked_fill(pad.unsqueeze(1), 0.0)
        y = self.pw2(nn.functional.silu(self.norm(self.dw(y))))
        return y.permute(2, 0, 1)


class EncoderLayer(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float = 0.1):
        super().__init__()
        self.attn = MultiheadSelfAttention(dim, heads, dropout)
        self.conv = ConvModule(dim)
        self.ff1 = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.ff2 = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(5))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, lengths: Tensor, chunk: int = 0) -> Tensor:
        pad = make_pad_mask(lengths, x.size(0))
        amask = chunk_mask(x.size(0), chunk).to(x.device) if chunk else None
        x = x + 0.5 * self.drop(self.ff1(self.norms[0](x)))
        x = x + self.drop(self.attn(self.norms[1](x), pad, amask)[0])
        x = x + self.drop(self.conv(self.norms[2](x), pad))
        x = x + 0.5 * self.drop(self.ff2(self.norms[3](x)))
        return self.norms[4](x)
