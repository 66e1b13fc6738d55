"""DETR-like detection head for a student competition: backbone features -> boxes."""
import torch
from torch import nn


class PosEnc2D(nn.Module):
    def __init__(self, dim, size=32):
        super().__init__()
        self.row = nn.Parameter(torch.rand(size, dim // 2))
        self.col = nn.Parameter(torch.rand(size, dim // 2))

    def forward(self, h, w):
        return torch.cat([
            self.col[:w].unsqueeze(0).expand(h, -1, -1),
            self.row[:h].unsqueeze(1).expand(-1, w, -1),
        ], dim=-1).flatten(0, 1)


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, ff, dropout):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.cross_attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(ff, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.norm3 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, tgt, memory, query_pos, pos, memory_key_padding_mask=None):
        q = k = tgt + query_pos
        tgt2, _ = self.self_attn(q, k, tgt, need_weights=False)
        tgt = self.norm1(tgt + self.drop(tgt2))
        tgt2, _ = self.cross_attn(
            tgt + query_pos, memory + pos, memory,
            key_padding_mask=memory_key_padding_mask, need_weights=False,
        )
        tgt = self.norm2(tgt + self.drop(tgt2))
        return self.norm3(tgt + self.drop(self.ffn(tgt)))


class MiniDETRHead(nn.Module):
    """features (B, C, H, W), pad (B, H, W) bool, True = outside of the picture, or None.

    Returns {"pred_logits": (B, N, classes + 1), "pred_boxes": (B, N, 4) as cx, cy, w, h}
    """

    def __init__(self, in_ch=24, dim=32, heads=4, n_queries=7, classes=5, layers=2, dropout=0.1):
        super().__init__()
        self.reduce = nn.Conv2d(in_ch, dim, 1)
        self.pos = PosEnc2D(dim)
        self.query_embed = nn.Embedding(n_queries, dim)
        self.layers = nn.ModuleList([DecoderLayer(dim, heads, 2 * dim, dropout) for _ in range(layers)])
        self.cls = nn.Linear(dim, classes + 1)
        self.box = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, features, pad=None):
        B, _, H, W = features.shape
        memory = self.reduce(features).flatten(2).permute(0, 2, 1)
        pos = self.pos(H, W).unsqueeze(0)
        query_pos = self.query_embed.weight.unsqueeze(0).expand(B, -1, -1)
        tgt = torch.zeros_like(query_pos)
        kpm = None if pad is None else pad.flatten(1)
        for layer in self.layers:
            tgt = layer(tgt, memory, query_pos, pos, kpm)
        return {"pred_logits": self.cls(tgt), "pred_boxes": self.box(tgt).sigmoid()}
