"""Object queries over a feature map, for the parking lot detector (DETR-like, one layer)."""
import torch
from torch import nn


class QueryDecoderLayer(nn.Module):
    """
    tgt      (B, Q, D)      object slots
    query_pos (Q, D)        learned slot embedding, added to queries and keys (never to values)
    memory   (B, S, D)      flattened image features
    pos      (B, S, D)      their position encoding, added to keys only
    mem_pad  (B, S) bool    True = padding pixel, not to be read
    returns  (B, Q, D)

    Order: self-attention among the slots, cross-attention to the image, feed forward; post-norm.
    """

    def __init__(self, d_model=32, nhead=4, dff=64, dropout=0.0):
        super().__init__()
        # inputs are (L, B, D) for these two
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, dff), nn.ReLU(), nn.Linear(dff, d_model))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, tgt, query_pos, memory, pos, mem_pad=None):
        tgt = tgt.transpose(0, 1)
        mem, pos = memory.transpose(0, 1), pos.transpose(0, 1)
        qp = query_pos.unsqueeze(1)

        qk = tgt + qp
        tgt = self.norm1(tgt + self.self_attn(qk, qk, tgt, need_weights=False)[0])
        read = self.cross_attn(tgt + qp, mem + pos, mem, key_padding_mask=mem_pad, need_weights=False)[0]
        tgt = self.norm2(tgt + read)
        tgt = self.norm3(tgt + self.ff(tgt))
        return tgt.transpose(0, 1)
