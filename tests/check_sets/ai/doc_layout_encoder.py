"""Encoder for scanned documents: text tokens with boxes on a 0..1000 page grid."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def log_bucket(rel, n_buckets, max_dist):
    """Signed distance -> bucket id, exact when near and logarithmic when far."""
    half = n_buckets // 2
    out = (rel > 0).long() * half
    n = rel.abs()
    exact = half // 2
    far = exact + (torch.log(n.float().clamp(min=1) / exact) / math.log(max_dist / exact) * (half - exact)).long()
    far = far.clamp(max=half - 1)
    return out + torch.where(n < exact, n, far)


class SpatialBias(nn.Module):
    """Per-head bias from the 1-D order and from the x / y distances of the boxes."""

    def __init__(self, heads, buckets_1d=32, buckets_2d=64):
        super().__init__()
        self.b1, self.b2 = buckets_1d, buckets_2d
        self.order = nn.Embedding(buckets_1d, heads)
        self.x = nn.Embedding(buckets_2d, heads)
        self.y = nn.Embedding(buckets_2d, heads)

    def forward(self, position_ids, boxes):
        def table(coord, emb, buckets, far):
            rel = coord[:, None, :] - coord[:, :, None]
            return emb(log_bucket(rel, buckets, far)).permute(0, 3, 1, 2)

        order = table(position_ids, self.order, self.b1, 128)
        space = table(boxes[..., 0], self.x, self.b2, 256) + table(boxes[..., 3], self.y, self.b2, 256)
        return order, space


class LayoutSelfAttention(nn.Module):
    def __init__(self, hidden, heads, p=0.1):
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden size {hidden} is no multiple of {heads} heads")
        self.heads, self.size = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(p)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, self.size).transpose(1, 2)

    @staticmethod
    def relaxed_softmax(scores, alpha=32):
        """Same values as softmax(scores), but the large scores never stand in fp16 unscaled."""
        small = scores / alpha
        top = small.amax(dim=-1, keepdim=True)
        return F.softmax((small - top) * alpha, dim=-1)

    def forward(self, hidden, attention_bias, order_bias=None, space_bias=None):
        """attention_bias: [batch, 1, 1, tokens], 0 for real tokens, finfo.min for padding.

        The position biases are scaled together with the products, as in the
        published checkpoints.
        """
        q, k, v = self.split(self.query(hidden)), self.split(self.key(hidden)), self.split(self.value(hidden))
        # divide before the product: keeps fp16 in range
        scores = torch.matmul(q / math.sqrt(self.size), k.transpose(-1, -2))
        if order_bias is not None:
            scores = scores + (order_bias + space_bias) / math.sqrt(self.size)
        scores = scores + attention_bias
        probs = self.dropout(self.relaxed_softmax(scores))
        ctx = torch.matmul(probs, v).transpose(1, 2)
        return ctx.reshape(hidden.shape)


class LayoutLayer(nn.Module):
    def __init__(self, hidden, heads, inner, p=0.1):
        super().__init__()
        self.attn = LayoutSelfAttention(hidden, heads, p)
        self.out = nn.Linear(hidden, hidden)
        self.n1, self.n2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.ff = nn.Sequential(nn.Linear(hidden, inner), nn.GELU(), nn.Linear(inner, hidden))
        self.drop = nn.Dropout(p)

    def forward(self, x, bias, order, space):
        x = self.n1(x + self.drop(self.out(self.attn(x, bias, order, space))))
        return self.n2(x + self.drop(self.ff(x)))


class DocumentEncoder(nn.Module):
    def __init__(self, vocab=1000, hidden=64, heads=4, layers=2, inner=128, max_len=512, p=0.1):
        super().__init__()
        self.tok = nn.Embedding(vocab, hidden)
        self.pos = nn.Embedding(max_len, hidden)
        self.box = nn.Linear(4, hidden)
        self.spatial = SpatialBias(heads)
        self.layers = nn.ModuleList(LayoutLayer(hidden, heads, inner, p) for _ in range(layers))

    def forward(self, ids, boxes, mask):
        """mask [batch, tokens]: 1 = token, 0 = padding"""
        pos = torch.arange(ids.size(1), device=ids.device).expand_as(ids)
        x = self.tok(ids) + self.pos(pos) + self.box(boxes.float() / 1000.0)
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        order, space = self.spatial(pos, boxes)
        for layer in self.layers:
            x = layer(x, bias, order, space)
        return x
