import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, tgt, query_pos, memory, pos):
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt, need_weights=False)[0])
        y = self.cross_attn(tgt + query_pos, memory + pos, value=memory, need_weights=False)[0]
        tgt = self.norm2(tgt + y)
        return self.norm3(tgt + self.ffn(tgt))


class QueryDecoder(nn.Module):
    """Learned object queries read a feature map (B, d, *size) with learned positions; gives boxes (B, queries, 4) in (0, 1)."""

    def __init__(self, d=16, heads=2, queries=5, layers=2, size=(3, 4)):
        super().__init__()
        self.query_embed = nn.Embedding(queries, d)
        self.pos = nn.Parameter(torch.randn(size[0] * size[1], d))
        self.layers = nn.ModuleList(DecoderLayer(d, heads) for _ in range(layers))
        self.boxes = nn.Linear(d, 4)

    def forward(self, features):
        memory = features.flatten(2).transpose(1, 2)
        query_pos = self.query_embed.weight.expand(features.shape[0], -1, -1)
        tgt = torch.zeros_like(query_pos)
        for layer in self.layers:
            tgt = layer(tgt, query_pos, memory, self.pos)
        return self.boxes(tgt).sigmoid()
