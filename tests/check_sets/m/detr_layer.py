from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EncoderLayer(nn.Module):
    """Post-norm encoder layer; sequence first: src (HW, N, C), pos (HW, N, C) is added to queries and keys but not to values."""

    def __init__(self, d_model=32, nhead=4, dim_feedforward=64, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src, pos: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None):
        q = k = src if pos is None else src + pos
        src2 = self.self_attn(q, k, value=src, key_padding_mask=src_key_padding_mask)[0]
        src = self.norm1(src + self.dropout(src2))
        src2 = self.linear2(self.dropout(F.relu(self.linear1(src))))
        return self.norm2(src + self.dropout(src2))
