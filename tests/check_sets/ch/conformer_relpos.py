"""Self-attention with relative positions as in Transformer-XL / Conformer."""
import math

import torch
from torch import nn


def rel_sinusoids(length, dim):
    """Encodings of the distances length-1, ..., 0, ..., -(length-1): (2*length-1, dim)."""
    dist = torch.arange(length - 1, -length, -1.0).unsqueeze(1)
    div = torch.exp(torch.arange(0, dim, 2).float() * (-math.log(10000.0) / dim))
    pe = torch.zeros(2 * length - 1, dim)
    pe[:, 0::2] = torch.sin(dist * div)
    pe[:, 1::2] = torch.cos(dist * div)
    return pe


class RelPositionMultiHeadedAttention(nn.Module):
    """
    x       (B, T, n_feat) frames
    lengths (B,) number of real frames; later frames are padding and not attended to
    """

    def __init__(self, n_head, n_feat, dropout_rate=0.1):
        super().__init__()
        assert n_feat % n_head == 0
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.linear_pos = nn.Linear(n_feat, n_feat, bias=False)
        self.pos_bias_u = nn.Parameter(torch.empty(n_head, self.d_k))
        self.pos_bias_v = nn.Parameter(torch.empty(n_head, self.d_k))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)
        self.dropout = nn.Dropout(dropout_rate)

    def rel_shift(self, x):
        # (B, h, T, 2T-1) -> (B, h, T, T): entry [i, j] is the one of distance i - j
        b, h, t, n = x.shape
        zero_pad = x.new_zeros(b, h, t, 1)
        x = torch.cat([zero_pad, x], dim=-1).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., :t]

    def forward(self, x, lengths=None):
        B, T, C = x.shape
        q = self.linear_q(x).view(B, T, self.h, self.d_k)
        k = self.linear_k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(rel_sinusoids(T, C).to(x)).view(2 * T - 1, self.h, self.d_k).transpose(0, 1)

        q_u = (q + self.pos_bias_u).transpose(1, 2)
        q_v = (q + self.pos_bias_v).transpose(1, 2)
        matrix_ac = torch.matmul(q_u, k.transpose(-2, -1))
        matrix_bd = self.rel_shift(torch.matmul(q_v, p.transpose(-2, -1)))
        scores = (matrix_ac + matrix_bd) / math.sqrt(self.d_k)

        if lengths is not None:
            pad = torch.arange(T, device=x.device)[None, :] >= lengths[:, None]
            scores = scores.masked_fill(pad[:, None, None, :], torch.finfo(scores.dtype).min)
        attn = self.dropout(torch.softmax(scores, dim=-1))
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, T, C)
        return self.linear_out(out)
