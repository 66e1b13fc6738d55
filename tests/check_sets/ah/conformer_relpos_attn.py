"""Conformer encoder layer with Transformer-XL style relative positions.

Shapes follow the rest of the toolkit:
    x         (batch, time, dim)
    pos_emb   (1, 2 * time - 1, dim)   positions time-1 ... 0 ... -(time-1)
    mask      (batch, 1, time) or (batch, time, time), non-zero = real frame
"""
import math

import torch
from torch import nn


class RelPositionalEncoding(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        T = x.size(1)
        pos = torch.arange(T - 1, -T, -1.0, device=x.device, dtype=torch.float32).unsqueeze(1)
        div = torch.exp(
            torch.arange(0, self.d_model, 2, device=x.device, dtype=torch.float32)
            * -(math.log(10000.0) / self.d_model)
        )
        pe = torch.zeros(2 * T - 1, self.d_model, device=x.device)
        pe[:, 0::2] = torch.sin(pos * div)
        pe[:, 1::2] = torch.cos(pos * div)
        return pe.unsqueeze(0).to(x.dtype)


class RelPositionMultiHeadedAttention(nn.Module):
    def __init__(self, n_head, n_feat, dropout_rate=0.0):
        super().__init__()
        assert n_feat % n_head == 0
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.linear_pos = nn.Linear(n_feat, n_feat, bias=False)
        self.pos_bias_u = nn.Parameter(torch.empty(self.h, self.d_k))
        self.pos_bias_v = nn.Parameter(torch.empty(self.h, self.d_k))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)
        self.dropout = nn.Dropout(dropout_rate)

    def rel_shift(self, x):
        """(b, h, t, 2t-1) -> (b, h, t, t), entry (i, j) is the score of offset i-j."""
        zero_pad = x.new_zeros((*x.size()[:3], 1))
        x_padded = torch.cat([zero_pad, x], dim=-1)
        x_padded = x_padded.view(*x.size()[:2], x.size(3) + 1, x.size(2))
        x = x_padded[:, :, 1:].view_as(x)[:, :, :, : x.size(-1) // 2 + 1]
        return x

    def forward(self, x, pos_emb, mask=None):
        n_batch, t, _ = x.shape
        q = self.linear_q(x).view(n_batch, t, self.h, self.d_k)
        k = self.linear_k(x).view(n_batch, t, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(n_batch, t, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(pos_emb.size(0), -1, self.h, self.d_k).transpose(1, 2)

        q_u = (q + self.pos_bias_u).transpose(1, 2)
        q_v = (q + self.pos_bias_v).transpose(1, 2)
        matrix_ac = torch.matmul(q_u, k.transpose(-2, -1))
        matrix_bd = self.rel_shift(torch.matmul(q_v, p.transpose(-2, -1)))
        scores = (matrix_ac + matrix_bd) / math.sqrt(self.d_k)

        if mask is not None:
            drop = mask.unsqueeze(1).eq(0)
            scores = scores.masked_fill(drop, torch.finfo(scores.dtype).min)
            attn = torch.softmax(scores, dim=-1).masked_fill(drop, 0.0)
        else:
            attn = torch.softmax(scores, dim=-1)
        ctx = torch.matmul(self.dropout(attn), v)
        ctx = ctx.transpose(1, 2).contiguous().view(n_batch, t, self.h * self.d_k)
        return self.linear_out(ctx)


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.ln = nn.LayerNorm(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x, frames=None):
        y = nn.functional.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        if frames is not None:
            y = y * frames.unsqueeze(1)
        y = self.dw(y).transpose(1, 2)
        return self.pw2(nn.functional.silu(self.ln(y)).transpose(1, 2)).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self, dim=144, heads=4, ff=4, p=0.1):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, ff * dim), nn.SiLU(), nn.Linear(ff * dim, dim))
        self.ff2 = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, ff * dim), nn.SiLU(), nn.Linear(ff * dim, dim))
        self.norm_att = nn.LayerNorm(dim)
        self.att = RelPositionMultiHeadedAttention(heads, dim, p)
        self.conv = ConvModule(dim)
        self.norm_out = nn.LayerNorm(dim)
        self.pe = RelPositionalEncoding(dim)

    def forward(self, x, mask=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.norm_att(x), self.pe(x), mask)
        x = x + self.conv(x, mask.squeeze(1).to(x.dtype) if mask is not None and mask.size(1) == 1 else None)
        x = x + 0.5 * self.ff2(x)
        return self.norm_out(x)
