"""DETR-style decoder for object queries: self-attention among queries, then into the image.

Box head and matching cost live here too, so that the evaluation tool needs one file only.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class SinePositions(nn.Module):
    def __init__(self, dim, temperature=10000):
        super().__init__()
        self.half, self.temperature = dim // 2, temperature

    def forward(self, padding):
        """padding [B, h, w], True outside of the picture -> [B, h, w, dim]"""
        inside = (~padding).float()
        y, x = inside.cumsum(1), inside.cumsum(2)
        y = y / (y[:, -1:, :] + 1e-6) * 2 * math.pi
        x = x / (x[:, :, -1:] + 1e-6) * 2 * math.pi
        i = torch.arange(0, self.half, 2, device=padding.device)
        omega = self.temperature ** (-i / self.half)
        parts = []
        for t in (y, x):
            a = t[..., None] * omega
            parts.append(torch.stack((a.sin(), a.cos()), -1).flatten(-2))
        return torch.cat(parts, -1)


class DetrAttention(nn.Module):
    """Positions are added to queries and keys, never to values.

    key_padding: [B, S], True for cells outside of the picture.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.num_heads ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = dropout

    def _shape(self, t):
        return t.view(t.shape[0], t.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, query, key, value, key_padding=None):
        B, n_q, C = query.shape
        q = self._shape(self.q_proj(query) * self.scaling)
        k = self._shape(self.k_proj(key))
        v = self._shape(self.v_proj(value))
        w = torch.matmul(q, k.transpose(-1, -2))
        if key_padding is not None:
            w = w.masked_fill(key_padding[:, None, None, :], torch.finfo(w.dtype).min)
        w = F.dropout(w.softmax(-1), self.dropout, self.training)
        out = torch.matmul(w, v).reshape(B, n_q, C)
        return self.out_proj(out), w


class DecoderLayer(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.self_attn = DetrAttention(dim, heads)
        self.cross_attn = DetrAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, tgt, memory, query_pos, memory_pos, memory_padding=None):
        q = tgt + query_pos
        tgt = self.n1(tgt + self.self_attn(q, q, tgt)[0])
        y, w = self.cross_attn(tgt + query_pos, memory + memory_pos, memory, memory_padding)
        tgt = self.n2(tgt + y)
        return self.n3(tgt + self.ff(tgt)), w


class ObjectDecoder(nn.Module):
    def __init__(self, dim=64, heads=8, ff=128, layers=2, queries=20, classes=7):
        super().__init__()
        self.query_embed = nn.Embedding(queries, dim)
        self.pos = SinePositions(dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads, ff) for _ in range(layers))
        self.cls = nn.Linear(dim, classes + 1)
        self.box = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4))

    def forward(self, feature_map, padding):
        """feature_map [B, dim, h, w] of the backbone, padding [B, h, w]"""
        B = feature_map.shape[0]
        memory = feature_map.flatten(2).transpose(1, 2)
        pos = self.pos(padding).flatten(1, 2)
        qpos = self.query_embed.weight[None].expand(B, -1, -1)
        tgt = torch.zeros_like(qpos)
        for layer in self.layers:
            tgt, w = layer(tgt, memory, qpos, pos, padding.flatten(1))
        return {"logits": self.cls(tgt), "boxes": self.box(tgt).sigmoid(), "attention": w}


def to_corners(b):
    c, s = b[..., :2], b[..., 2:]
    return torch.cat([c - s / 2, c + s / 2], -1)


def pair_iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda t: (t[:, 2:] - t[:, :2]).prod(-1)
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def matching_cost(out, labels, boxes, w_cls=1.0, w_l1=5.0, w_iou=2.0):
    """One picture: out logits [Q, C+1], boxes [Q, 4]; targets [N], [N, 4] -> [Q, N]"""
    p = out["logits"].softmax(-1)[:, labels]
    l1 = torch.cdist(out["boxes"], boxes, p=1)
    return -w_cls * p + w_l1 * l1 - w_iou * pair_iou(to_corners(out["boxes"]), to_corners(boxes))
