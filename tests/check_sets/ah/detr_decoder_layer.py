"""DETR decoder layer. Everything is sequence-first: tgt [num_queries, B, C], memory [HW, B, C],
as nn.MultiheadAttention expects by default. Key padding masks are [B, HW], True on padded pixels."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def with_pos(t, pos):
    return t if pos is None else t + pos


class DETRDecoderLayer(nn.Module):
    def __init__(self, d_model=256, nhead=8, dim_ff=2048, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)
        self.linear1, self.linear2 = nn.Linear(d_model, dim_ff), nn.Linear(dim_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tgt, memory, memory_key_padding_mask=None, pos=None, query_pos=None):
        q = k = with_pos(tgt, query_pos)
        tgt2 = self.self_attn(q, k, value=tgt, need_weights=False)[0]
        tgt = self.norm1(tgt + self.dropout(tgt2))
        tgt2 = self.multihead_attn(
            query=with_pos(tgt, query_pos),
            key=with_pos(memory, pos),
            value=memory,
            key_padding_mask=memory_key_padding_mask,
            need_weights=False,
        )[0]
        tgt = self.norm2(tgt + self.dropout(tgt2))
        tgt2 = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.dropout(tgt2))


class BoxHead(nn.Module):
    def __init__(self, d, classes):
        super().__init__()
        self.cls = nn.Linear(d, classes + 1)
        self.box = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 4))

    def forward(self, hs):
        return {"pred_logits": self.cls(hs), "pred_boxes": self.box(hs).sigmoid()}


class DETRDecoder(nn.Module):
    def __init__(self, layer, num_layers, num_queries, d_model, classes=20):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.query_embed = nn.Embedding(num_queries, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.head = BoxHead(d_model, classes)

    def forward(self, feat, mask, pos):
        """feat, pos: [B, C, H, W]; mask: [B, H, W], True = padding"""
        B = feat.size(0)
        memory = feat.flatten(2).permute(2, 0, 1)
        pos = pos.flatten(2).permute(2, 0, 1)
        mask = mask.flatten(1)
        query_pos = self.query_embed.weight.unsqueeze(1).repeat(1, B, 1)
        tgt = torch.zeros_like(query_pos)
        inter = []
        for layer in self.layers:
            tgt = layer(tgt, memory, mask, pos, query_pos)
            inter.append(self.norm(tgt))
        return self.head(torch.stack(inter).transpose(1, 2))
