"""Decoder layer: object queries look at the image tokens of all cameras."""
import torch
import torch.nn as nn


class QueryLayer(nn.Module):
    """
    query   B x Q x C   object queries
    tokens  B x N x C   flattened camera features, padded to the largest N in the batch
    valid   B x N       bool, True on tokens that come from an image
    """

    def __init__(self, c=32, heads=4, hidden=64, p=0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(c, heads, dropout=p, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(c, heads, dropout=p, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(c, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, c))
        self.ln = nn.ModuleList([nn.LayerNorm(c) for _ in range(3)])

    def forward(self, query, query_pos, tokens, token_pos, valid):
        q = query + query_pos
        query = self.ln[0](query + self.self_attn(q, q, query)[0])
        upd, _ = self.cross_attn(
            query + query_pos,
            tokens + token_pos,
            tokens,
            key_padding_mask=valid,
        )
        query = self.ln[1](query + upd)
        return self.ln[2](query + self.ffn(query))
