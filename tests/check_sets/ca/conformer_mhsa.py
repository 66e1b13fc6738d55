"""Multi-headed self-attention module of the Conformer (streaming-free ASR model).

Relative positional encoding of Transformer-XL:

    score(i, j) = [(q_i + u) . k_j + (q_i + v) . W_r r_{i-j}] / sqrt(d_head)

where r_p is the sinusoid of the signed distance p = i - j.  Frames past the end of an
utterance are given by ``lengths``; they are never attended to.
"""
import math

import torch
import torch.nn as nn


def relative_sinusoids(T, dim, device=None):
    """Row n is the encoding of distance T-1-n, i.e. T-1, ..., 0, ..., -(T-1)."""
    pos = torch.arange(T - 1, -T, -1.0, device=device).unsqueeze(1)
    inv = torch.exp(torch.arange(0, dim, 2, device=device) * -(math.log(10000.0) / dim))
    pe = torch.zeros(2 * T - 1, dim, device=device)
    pe[:, 0::2] = torch.sin(pos * inv)
    pe[:, 1::2] = torch.cos(pos * inv)
    return pe


class ConformerMHSA(nn.Module):
    def __init__(self, d_model=40, n_head=4, dropout=0.1):
        super().__init__()
        self.h = n_head
        self.d_k = d_model // n_head
        self.norm = nn.LayerNorm(d_model)
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_pos = nn.Linear(d_model, d_model, bias=False)
        self.linear_out = nn.Linear(d_model, d_model)
        self.pos_bias_u = nn.Parameter(torch.empty(n_head, self.d_k))
        self.pos_bias_v = nn.Parameter(torch.empty(n_head, self.d_k))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)
        self.attn_drop = nn.Dropout(dropout)
        self.out_drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        # (B, H, T, 2T-1) -> (B, H, T, T): row i is moved left by T-1-i
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1)
        x = x.view(b, h, n + 1, t)[:, :, 1:].reshape(b, h, t, n)
        return x[..., : n // 2 + 1]

    def forward(self, x, lengths=None):
        b, t, _ = x.shape
        y = self.norm(x)
        q = self.linear_q(y).view(b, t, self.h, self.d_k)
        k = self.linear_k(y).view(b, t, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(y).view(b, t, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(relative_sinusoids(t, x.size(-1), x.device).to(x.dtype))
        p = p.view(1, 2 * t - 1, self.h, self.d_k).transpose(1, 2)

        q_u = (q + self.pos_bias_u).transpose(1, 2)
        q_v = (q + self.pos_bias_v).transpose(1, 2)
        matrix_ac = torch.matmul(q_u, k.transpose(-2, -1))
        matrix_bd = self.rel_shift(torch.matmul(q_v, p.transpose(-2, -1)))
        scores = (matrix_ac + matrix_bd) / math.sqrt(self.d_k)

        if lengths is not None:
            pad = torch.arange(t, device=x.device)[None, :] >= lengths[:, None]
            pad = pad[:, None, None, :]
            scores = scores.masked_fill(pad, torch.finfo(scores.dtype).min)
            attn = torch.softmax(scores, dim=-1).masked_fill(pad, 0.0)
        else:
            attn = torch.softmax(scores, dim=-1)

        out = torch.matmul(self.attn_drop(attn), v)
        out = out.transpose(1, 2).contiguous().view(b, t, self.h * self.d_k)
        return x + self.out_drop(self.linear_out(out))
