import math

import torch
import torch.nn as nn


class FoldedMultiHeadAttention(nn.Module):
    """Multi-head attention with the heads folded in the batch, so that a single
    torch.bmm does all of them.

    inputs  (batch, time, d_model)
    mask    bool (batch, time, time), True where attention is NOT allowed
            (each utterance has its own padding)
    """

    def __init__(self, d_model=64, num_heads=4, dropout_p=0.1):
        super().__init__()
        assert d_model % num_heads == 0
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout_p)

    def _fold(self, x):
        b, t, _ = x.shape
        x = x.view(b, t, self.num_heads, self.d_head).permute(2, 0, 1, 3)
        return x.reshape(self.num_heads * b, t, self.d_head)

    def forward(self, inputs, mask=None):
        b, t, _ = inputs.shape
        q = self._fold(self.query_proj(inputs))
        k = self._fold(self.key_proj(inputs))
        v = self._fold(self.value_proj(inputs))

        score = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d_head)
        if mask is not None:
            mask = mask.repeat_interleave(self.num_heads, dim=0)
            score = score.masked_fill(mask, -1e9)
        attn = self.dropout(torch.softmax(score, dim=-1))
        ctx = torch.bmm(attn, v)

        ctx = ctx.view(self.num_heads, b, t, self.d_head).permute(1, 2, 0, 3)
        return self.out_proj(ctx.reshape(b, t, -1))


def padding_mask(lengths, time):
    """(batch, time, time), True in the columns of padded frames."""
    pad = torch.arange(time)[None, :] >= lengths[:, None]
    return pad.unsqueeze(1).expand(-1, time, -1)


class SpeechEncoderLayer(nn.Module):
    def __init__(self, d_model=64, num_heads=4, d_ff=128, dropout_p=0.1):
        super().__init__()
        self.norm1 = nn.LayerNorm(d_model)
        self.attention = FoldedMultiHeadAttention(d_model, num_heads, dropout_p)
        self.norm2 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.SiLU(), nn.Dropout(dropout_p),
                                 nn.Linear(d_ff, d_model), nn.Dropout(dropout_p))

    def forward(self, inputs, lengths):
        mask = padding_mask(lengths, inputs.size(1))
        x = inputs + self.attention(self.norm1(inputs), mask)
        return x + self.ffn(self.norm2(x))
