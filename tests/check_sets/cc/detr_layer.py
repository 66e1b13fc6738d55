"""One decoder layer of a DETR-like detector.

Everything is sequence first, as in the original code: the object queries are
[Q, B, C] and the flattened feature map is [H*W, B, C].  Positional terms are added to
queries and keys only, never to values.
"""
from typing import Optional

import torch
from torch import Tensor, nn


def with_pos(t: Tensor, pos: Optional[Tensor]) -> Tensor:
    return t if pos is None else t + pos


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int = 32, nhead: int = 4, dim_ff: int = 64, dropout: float = 0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.ff = nn.Sequential(
            nn.Linear(d_model, dim_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(dim_ff, d_model)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        memory_key_padding_mask: Optional[Tensor] = None,
        pos: Optional[Tensor] = None,
        query_pos: Optional[Tensor] = None,
    ) -> Tensor:
        """
        tgt: [Q, B, C]; memory, pos: [S, B, C]; query_pos: [Q, B, C]
        memory_key_padding_mask: [B, S], True on the pixels added by batching
        """
        q = k = with_pos(tgt, query_pos)
        sa, _ = self.self_attn(q, k, value=tgt, need_weights=False)
        tgt = self.norms[0](tgt + self.drop(sa))

        ca, _ = self.cross_attn(
            query=with_pos(tgt, query_pos),
            key=with_pos(memory, pos),
            value=memory,
            key_padding_mask=memory_key_padding_mask,
            need_weights=False,
        )
        tgt = self.norms[1](tgt + self.drop(ca))
        tgt = self.norms[2](tgt + self.drop(self.ff(tgt)))
        return tgt


if __name__ == "__main__":
    layer = DecoderLayer().eval()
    feats = torch.randn(20, 2, 32)
    pad = torch.zeros(2, 20, dtype=torch.bool)
    pad[1, 15:] = True
    hs = layer(torch.zeros(5, 2, 32), feats, pad, torch.randn(20, 2, 32), torch.randn(5, 2, 32))
    print(hs.shape)
