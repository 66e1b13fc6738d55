"""Self-attention of a document layout encoder with 1-D and 2-D relative biases.

Uses the PB-Relax trick of CogView to keep half precision from overflowing:
softmax(s) == softmax((s/a - max(s/a)) * a).
"""
import math
import torch
import torch.nn as nn


def relative_bucket(rel, num_buckets=32, max_distance=128):
    half = num_buckets // 2
    ret = (rel > 0).long() * half
    n = rel.abs()
    exact = half // 2
    big = exact + (torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (half - exact)).long()
    return ret + torch.where(n < exact, n, big.clamp(max=half - 1))


def extended_mask(attention_mask, dtype):
    """1 = token, 0 = padding  ->  additive (B, 1, 1, L)"""
    m = attention_mask[:, None, None, :].to(dtype)
    return (1.0 - m) * torch.finfo(dtype).min


class LayoutSelfAttention(nn.Module):
    def __init__(self, hidden=96, heads=6, dropout=0.1, alpha=32):
        super().__init__()
        self.num_attention_heads = heads
        self.attention_head_size = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(dropout)
        self.alpha = alpha

    def cogview_attention(self, scores):
        scaled = scores / self.alpha
        top = scaled.amax(dim=-1, keepdim=True)
        return nn.Softmax(dim=-1)((scaled - top) * self.alpha)

    def transpose_for_scores(self, x):
        x = x.view(*x.shape[:-1], self.num_attention_heads, self.attention_head_size)
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, mask=None, rel_pos=None, rel_2d_pos=None):
        """mask: from extended_mask; rel_pos, rel_2d_pos: (B, heads, L, L) learned biases.
        Like in LayoutLMv2/v3 the biases are divided by sqrt(d) too."""
        q = self.transpose_for_scores(self.query(hidden_states))
        k = self.transpose_for_scores(self.key(hidden_states))
        v = self.transpose_for_scores(self.value(hidden_states))
        scores = torch.matmul(q / math.sqrt(self.attention_head_size), k.transpose(-1, -2))
        if rel_pos is not None:
            scores = scores + rel_pos / math.sqrt(self.attention_head_size)
        if rel_2d_pos is not None:
            scores = scores + rel_2d_pos / math.sqrt(self.attention_head_size)
        if mask is not None:
            scores = scores + mask
        probs = self.dropout(self.cogview_attention(scores))
        ctx = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return ctx.view(*ctx.shape[:-2], -1)


class LayoutLayer(nn.Module):
    def __init__(self, hidden=96, heads=6, buckets=32):
        super().__init__()
        self.att = LayoutSelfAttention(hidden, heads)
        self.out = nn.Linear(hidden, hidden)
        self.ln = nn.LayerNorm(hidden)
        self.rel = nn.Embedding(buckets, heads)
        self.rel_x = nn.Embedding(buckets, heads)
        self.rel_y = nn.Embedding(buckets, heads)

    def forward(self, x, attention_mask, bbox):
        """bbox (B, L, 4) integers 0..1000"""
        pos = torch.arange(x.size(1), device=x.device)
        r1 = self.rel(relative_bucket(pos[None, :] - pos[:, None])).permute(2, 0, 1)[None]
        cx, cy = bbox[..., 0], bbox[..., 3]
        r2 = (self.rel_x(relative_bucket(cx[:, None, :] - cx[:, :, None]))
              + self.rel_y(relative_bucket(cy[:, None, :] - cy[:, :, None]))).permute(0, 3, 1, 2)
        y = self.att(x, extended_mask(attention_mask, x.dtype), r1, r2)
        return self.ln(x + self.out(y))
