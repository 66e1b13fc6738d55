"""DETR: End-to-End Object Detection with Transformers (Carion et al. 2020), decoder layer.

Batch first. Object queries and position encodings are added to queries and keys, never to values.
"""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attn(nn.Module):
    def __init__(self, d_model: int, nhead: int):
        super().__init__()
        self.nhead = nhead
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def split(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        return x.reshape(b, n, self.nhead, c // self.nhead).permute(0, 2, 1, 3)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None) -> Tensor:
        # key_padding_mask: (B, S), True on padding
        mask = None
        if key_padding_mask is not None:
            mask = key_padding_mask[:, None, None, :]
        y = F.scaled_dot_product_attention(self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value)), attn_mask=mask)
        return self.out(y.permute(0, 2, 1, 3).flatten(2))


class DetrDecoderLayer(nn.Module):
    """
    tgt        (B, num_queries, d_model)
    memory     (B, HW, d_model)   flattened feature map of the encoder
    memory_pad (B, HW)            bool, True for pixels that only pad the image
    pos        (B, HW, d_model)   sine encoding
    query_pos  (B, num_queries, d_model)
    """

    def __init__(self, d_model: int = 32, nhead: int = 4, dim_ff: int = 64):
        super().__init__()
        self.self_attn = Attn(d_model, nhead)
        self.cross_attn = Attn(d_model, nhead)
        self.linear1 = nn.Linear(d_model, dim_ff)
        self.linear2 = nn.Linear(dim_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)

    def forward(self, tgt, memory, memory_pad=None, pos=None, query_pos=None):
        def add(x, p):
            return x if p is None else x + p

        q = add(tgt, query_pos)
        tgt = self.norm1(tgt + self.self_attn(q, q, tgt))
        y = self.cross_attn(add(tgt, query_pos), add(memory, pos), memory, memory_pad)
        tgt = self.norm2(tgt + y)
        y = self.linear2(F.relu(self.linear1(tgt)))
        return self.norm3(tgt + y)
