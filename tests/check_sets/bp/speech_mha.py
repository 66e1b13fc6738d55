# Listen-Attend style speech recogniser, encoder side.  Heads are folded into the batch
# dimension so that everything is one bmm (works with old AMP versions).
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def lengths_to_mask(lengths, max_len=None):
    """True = frame exists."""
    max_len = int(lengths.max()) if max_len is None else max_len
    return torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]


class ScaledDotProduct(nn.Module):
    def __init__(self, d, p=0.1):
        super().__init__()
        self.sqrt_d = math.sqrt(d)
        self.dropout = nn.Dropout(p)

    def forward(self, query, key, value, mask=None):
        score = torch.bmm(query, key.transpose(1, 2)) / self.sqrt_d
        if mask is not None:
            score = score.masked_fill(mask == 0, -1e9)
        attn = F.softmax(score, -1)
        context = torch.bmm(self.dropout(attn), value)
        return context, attn


class FoldedMultiHead(nn.Module):
    """
    Inputs:  query (B, Tq, D), key / value (B, Tk, D), frame_mask (B, Tk) bool, True = keep
    Output:  (B, Tq, D)
    """

    def __init__(self, d_model=512, num_heads=8, p=0.1):
        super().__init__()
        assert d_model % num_heads == 0, "d_model % num_heads should be zero."
        self.d_head = d_model // num_heads
        self.num_heads = num_heads
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.core = ScaledDotProduct(self.d_head, p)

    def fold(self, x):
        B, T, _ = x.shape
        x = x.view(B, T, self.num_heads, self.d_head)
        return x.permute(2, 0, 1, 3).reshape(self.num_heads * B, T, self.d_head)

    def forward(self, query, key, value, frame_mask=None):
        B, Tq, Tk = query.size(0), query.size(1), key.size(1)
        q = self.fold(self.query_proj(query))
        k = self.fold(self.key_proj(key))
        v = self.fold(self.value_proj(value))
        if frame_mask is not None:
            frame_mask = frame_mask.unsqueeze(1).expand(B, Tq, Tk)
            frame_mask = frame_mask.repeat_interleave(self.num_heads, dim=0)
        context, _ = self.core(q, k, v, frame_mask)
        context = context.view(self.num_heads, B, Tq, self.d_head)
        context = context.permute(1, 2, 0, 3).reshape(B, Tq, self.num_heads * self.d_head)
        return self.out_proj(context)


class SpeechEncoderLayer(nn.Module):
    def __init__(self, d_model=64, num_heads=4, p=0.1):
        super().__init__()
        self.attn = FoldedMultiHead(d_model, num_heads, p)
        self.conv = nn.Conv1d(d_model, d_model, 7, padding=3, groups=d_model)
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, lengths):
        mask = lengths_to_mask(lengths, x.size(1))
        h = self.ln1(x)
        x = x + self.attn(h, h, h, mask)
        h = (self.ln2(x) * mask.unsqueeze(-1)).transpose(1, 2)
        return x + F.silu(self.conv(h)).transpose(1, 2)
