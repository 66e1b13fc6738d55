"""Sandwich-LN transformer layer with the "precision bottleneck relaxation" of CogView.

PB-Relax computes softmax(QK^T/sqrt(d)) as

    softmax( alpha * ( Q/(alpha sqrt(d)) K^T - rowmax( Q/(alpha sqrt(d)) K^T ) ) )

so that no product before the softmax gets large in half precision.  Mathematically it is the
plain scaled dot-product attention.

    hidden   (B, L, E)
    visible  (1 or B, L, L) of 0/1;  visible[b, i, j] == 1 lets token i look at token j.
             Every token sees at least one token.
    returns  (B, L, E)
"""
import math

import torch
from torch import nn


class PBLayer(nn.Module):
    ALPHA = 32.0

    def __init__(self, e, n_head, ffn=4):
        super().__init__()
        self.nh = n_head
        self.query_key_value = nn.Linear(e, 3 * e)
        self.dense = nn.Linear(e, e)
        self.mlp = nn.Sequential(nn.Linear(e, ffn * e), nn.GELU(), nn.Linear(ffn * e, e))
        self.ln_in, self.ln_att = nn.LayerNorm(e), nn.LayerNorm(e)
        self.ln_mid, self.ln_mlp = nn.LayerNorm(e), nn.LayerNorm(e)

    def attention(self, h, visible):
        B, L, E = h.shape
        d = E // self.nh
        q, k, v = [t.view(B, L, self.nh, d).permute(0, 2, 1, 3)
                   for t in self.query_key_value(h).chunk(3, dim=-1)]
        small = torch.matmul(q / (self.ALPHA * math.sqrt(d)), k.transpose(-1, -2))
        small = small.masked_fill(visible.unsqueeze(1) == 0, -float("inf"))
        peak = small.max(dim=-1, keepdim=True).values
        p = torch.softmax((small - peak.detach()) * self.ALPHA, dim=-1)
        return self.dense(torch.matmul(p, v).permute(0, 2, 1, 3).reshape(B, L, E))

    def forward(self, hidden, visible):
        hidden = hidden + self.ln_att(self.attention(self.ln_in(hidden), visible))
        return hidden + self.ln_mlp(self.mlp(self.ln_mid(hidden)))
