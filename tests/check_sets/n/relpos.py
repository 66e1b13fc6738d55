import math

import torch
from torch import nn


class RelPositionMultiHeadedAttention(nn.Module):
    """Multi-head attention with relative positions as in Transformer-XL and the Conformer.

    x: (batch, time, n_feat); pos_emb: (1, 2 * time - 1, n_feat), from the distance time - 1 down to -(time - 1).
    """

    def __init__(self, n_head, n_feat):
        super().__init__()
        self.h, self.d_k = n_head, n_feat // n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.linear_pos = nn.Linear(n_feat, n_feat, bias=False)
        self.pos_bias_u = nn.Parameter(torch.randn(self.h, self.d_k))
        self.pos_bias_v = nn.Parameter(torch.randn(self.h, self.d_k))

    def rel_shift(self, x):
        b, h, t, n = x.shape
        zero_pad = torch.zeros((b, h, t, 1), dtype=x.dtype)
        x_padded = torch.cat([zero_pad, x], dim=-1).view(b, h, n + 1, t)
        return x_padded[:, :, 1:].view(b, h, t, n)[..., : n // 2 + 1]

    def forward(self, x, pos_emb):
        b = x.size(0)
        q = self.linear_q(x).view(b, -1, self.h, self.d_k)
        k = self.linear_k(x).view(b, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(b, -1, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(1, -1, self.h, self.d_k).transpose(1, 2)
        ac = torch.matmul((q + self.pos_bias_u).transpose(1, 2), k.transpose(-2, -1))
        bd = self.rel_shift(torch.matmul((q + self.pos_bias_v).transpose(1, 2), p.transpose(-2, -1)))
        attn = torch.softmax((ac + bd) / math.sqrt(self.d_k), dim=-1)
        return self.linear_out(torch.matmul(attn, v).transpose(1, 2).reshape(b, -1, self.h * self.d_k))
