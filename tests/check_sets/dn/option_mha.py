"""Multi-head attention with the switches of our ablation study.

OptionAttention reads sequences in one of three layouts
    "blc"   (batch, length, channels), the default
    "lbc"   (length, batch, channels)
    "bcl"   (batch, channels, length)
and answers in the layout of its input.

Switches
    head_dim   width of one head; dim // heads unless given
    null_key   a learned key/value pair per head that every query may read
    gate       the heads' output is multiplied by sigmoid(Linear(x)), one gate
               per channel of the heads, before the last projection
    qkv_bias   bias terms in the three input projections

forward(x, context=None, drop_keys=None, bias=None)
    context    the sequence that is read, in the same layout; x if None
    drop_keys  (batch, Lk) bool, True = padding, not read.  Without null_key
               every sample must keep at least one key
    bias       (heads, Lq, Lk) or (batch, heads, Lq, Lk) floats, added to the
               scaled scores (the null key gets none)
The scores are q.k / sqrt(head_dim), the softmax runs over the keys.
"""
import math

import torch
from torch import nn

_PERM = {"blc": (0, 1, 2), "lbc": (1, 0, 2), "bcl": (0, 2, 1)}  # all of them undo themselves


class OptionAttention(nn.Module):
    def __init__(self, dim, heads, head_dim=None, layout="blc", null_key=False,
                 gate=False, qkv_bias=False, dropout=0.0):
        super().__init__()
        if layout not in _PERM:
            raise ValueError(f"layout must be one of {sorted(_PERM)}")
        self.layout = layout
        self.heads = heads
        self.head_dim = head_dim or dim // heads
        inner = self.heads * self.head_dim
        self.to_q = nn.Linear(dim, inner, bias=qkv_bias)
        self.to_k = nn.Linear(dim, inner, bias=qkv_bias)
        self.to_v = nn.Linear(dim, inner, bias=qkv_bias)
        self.to_gate = nn.Linear(dim, inner) if gate else None
        self.to_out = nn.Linear(inner, dim)
        self.drop = nn.Dropout(dropout)
        self.null = None
        if null_key:
            self.null = nn.Parameter(torch.randn(2, heads, 1, self.head_dim) * 0.5)

    def _split(self, t):
        # (B, L, H*d) -> (B, H, L, d)
        return t.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, context=None, drop_keys=None, bias=None):
        perm = _PERM[self.layout]
        x = x.permute(perm)
        context = x if context is None else context.permute(perm)

        q = self._split(self.to_q(x)) / math.sqrt(self.head_dim)
        k = self._split(self.to_k(context))
        v = self._split(self.to_v(context))

        scores = q @ k.transpose(-1, -2)
        if bias is not None:
            scores = scores + bias
        if drop_keys is not None:
            scores = scores.masked_fill(drop_keys[:, None, None, :], float("-inf"))

        if self.null is not None:
            null_k, null_v = self.null
            extra = (q * null_k).sum(-1, keepdim=True)
            scores = torch.cat((extra, scores), dim=-1)
            v = torch.cat((null_v.expand(v.size(0), -1, -1, -1), v), dim=2)

        y = self.drop(scores.softmax(dim=-1)) @ v
        y = y.transpose(1, 2).flatten(2)
        if self.to_gate is not None:
            y = y * torch.sigmoid(self.to_gate(x))
        return self.to_out(y).permute(perm)
