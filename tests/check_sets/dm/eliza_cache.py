"""ELIZA 2.0, GPT layer with growing cache for chatting.

forward(x, past) where
    x     (B, T, C)  new tokens (a whole sentence of the user, or one token of the bot)
    past  None, or (k, v) each (B, heads, P, C // heads) as returned by the last call

New token t stands at place P + t of the conversation.  It sees everything that
was said before it - all P old tokens - and the new tokens up to itself.  Feeding a
conversation in pieces gives the same outputs as feeding it at once.

Returns (B, T, C) and the new (k, v) of length P + T.  Position information is added
by the caller.
"""
import math

import torch
import torch.nn as nn


class ElizaAttention(nn.Module):
    def __init__(self, C, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(C, 3 * C)
        self.c_proj = nn.Linear(C, C)

    def forward(self, x, past=None):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=-1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if past is not None:
            k = torch.cat((past[0], k), dim=-2)
            v = torch.cat((past[1], v), dim=-2)

        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        n = k.size(-2)
        causal = torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device))[:T, :n]
        att = att.masked_fill(~causal, torch.finfo(att.dtype).min)
        y = att.softmax(-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v)
