#!/usr/bin/env python3
"""Self-attention of the Conformer encoder with relative positions (Transformer-XL, App. B)."""

import math

import torch
from torch import nn


class RelPositionalEncoding(nn.Module):
    """Sinusoids for the relative positions T-1, ..., 0, ..., -(T-1)."""

    def __init__(self, d_model, dropout_rate=0.1):
        super().__init__()
        self.d_model = d_model
        self.xscale = math.sqrt(d_model)
        self.dropout = nn.Dropout(p=dropout_rate)

    def table(self, T, ref):
        pos = torch.arange(T - 1, -T, -1.0, device=ref.device, dtype=torch.float32)
        div = torch.exp(torch.arange(0, self.d_model, 2, dtype=torch.float32, device=ref.device)
                        * -(math.log(10000.0) / self.d_model))
        pe = torch.zeros(2 * T - 1, self.d_model, device=ref.device)
        pe[:, 0::2] = torch.sin(pos[:, None] * div)
        pe[:, 1::2] = torch.cos(pos[:, None] * div)
        return pe.unsqueeze(0).to(ref.dtype)

    def forward(self, x):
        return self.dropout(x * self.xscale), self.dropout(self.table(x.size(1), x))


class RelPositionMultiHeadedAttention(nn.Module):
    """
    Args:
        n_head (int): number of heads
        n_feat (int): number of features
    """

    def __init__(self, n_head, n_feat, dropout_rate):
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
        self.attn = None
        self.dropout = nn.Dropout(p=dropout_rate)

    def rel_shift(self, x):
        """(B, h, T, 2T-1) -> (B, h, T, T): column j of row i is the distance i - j."""
        B, h, T, n = x.size()
        x = torch.cat([x.new_zeros(B, h, T, 1), x], dim=-1)
        x = x.view(B, h, n + 1, T)[:, :, 1:].view(B, h, T, n)
        return x[..., : n // 2 + 1]

    def forward_attention(self, value, scores, mask):
        n_batch = value.size(0)
        if mask is not None:
            mask = mask.unsqueeze(1).eq(0)  # (B, 1, *, T2)
            scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
            self.attn = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)
        else:
            self.attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(self.dropout(self.attn), value)
        x = x.transpose(1, 2).contiguous().view(n_batch, -1, self.h * self.d_k)
        return self.linear_out(x)

    def forward(self, query, key, value, pos_emb, mask=None):
        """mask (B, 1, T) or (B, T, T); 0 marks frames that are padding."""
        B = query.size(0)
        q = self.linear_q(query).view(B, -1, self.h, self.d_k)  # (B, T, h, d)
        k = self.linear_k(key).view(B, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(value).view(B, -1, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(pos_emb.size(0), -1, self.h, self.d_k).transpose(1, 2)

        q_u = (q + self.pos_bias_u).transpose(1, 2)
        q_v = (q + self.pos_bias_v).transpose(1, 2)
        matrix_ac = torch.matmul(q_u, k.transpose(-2, -1))
        matrix_bd = self.rel_shift(torch.matmul(q_v, p.transpose(-2, -1)))
        scores = (matrix_ac + matrix_bd) / math.sqrt(self.d_k)
        return self.forward_attention(v, scores, mask)


class ConvolutionModule(nn.Module):
    def __init__(self, ch, kernel_size=15):
        super().__init__()
        self.pw1 = nn.Conv1d(ch, 2 * ch, 1)
        self.dw = nn.Conv1d(ch, ch, kernel_size, padding=(kernel_size - 1) // 2, groups=ch)
        self.norm = nn.GroupNorm(1, ch)
        self.pw2 = nn.Conv1d(ch, ch, 1)

    def forward(self, x, mask=None):
        x = nn.functional.glu(self.pw1(x.transpose(1, 2)), dim=1)
        if mask is not None:
            x = x.masked_fill(mask.eq(0), 0.0)
        return self.pw2(nn.functional.silu(self.norm(self.dw(x)))).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self, size, heads, dropout_rate=0.1):
        super().__init__()
        self.self_attn = RelPositionMultiHeadedAttention(heads, size, dropout_rate)
        self.conv = ConvolutionModule(size)
        self.ff = nn.Sequential(nn.Linear(size, 4 * size), nn.SiLU(), nn.Linear(4 * size, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(4))

    def forward(self, x, pos_emb, mask=None):
        y = self.norms[0](x)
        x = x + self.self_attn(y, y, y, pos_emb, mask)
        x = x + self.conv(self.norms[1](x), mask)
        return self.norms[3](x + 0.5 * self.ff(self.norms[2](x)))
