"""Conformer encoder pieces (relative positional self attention + conv module).

Relative positions as in Transformer-XL: the position table has 2T-1 rows for the
distances T-1, ..., 0, ..., -(T-1)  (distance = query frame - key frame).
Masks: 1/True = real frame.
"""
import math

import torch
from torch import nn


class RelPositionalEncoding(nn.Module):
    def __init__(self, d_model: int):
        super().__init__()
        self.d_model = d_model
        self.register_buffer("inv", torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model)))

    def forward(self, T: int) -> torch.Tensor:
        dist = torch.arange(T - 1, -T, -1, device=self.inv.device, dtype=self.inv.dtype)
        ang = dist[:, None] * self.inv[None, :]
        pe = torch.empty(2 * T - 1, self.d_model, device=ang.device, dtype=ang.dtype)
        pe[:, 0::2] = ang.sin()
        pe[:, 1::2] = ang.cos()
        return pe


class RelPositionMultiHeadedAttention(nn.Module):
    def __init__(self, n_head: int, n_feat: int, dropout_rate: float):
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

    @staticmethod
    def rel_shift(x: torch.Tensor) -> torch.Tensor:
        """[B, H, T, 2T-1] by distance -> [B, H, T, T] by key frame."""
        b, h, t, n = x.shape
        pad = x.new_zeros(b, h, t, 1)
        x = torch.cat([pad, x], dim=-1).view(b, h, n + 1, t)
        x = x[:, :, 1:].reshape(b, h, t, n)
        return x[..., : n // 2 + 1]

    def forward(self, x: torch.Tensor, pos_emb: torch.Tensor, mask: torch.Tensor = None) -> torch.Tensor:
        """x: [B, T, F], pos_emb: [2T-1, F], mask: [B, T]"""
        B, T, _ = x.shape
        q = self.linear_q(x).view(B, T, self.h, self.d_k)
        k = self.linear_k(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(1, -1, self.h, self.d_k).transpose(1, 2)

        q_u = (q + self.pos_bias_u).transpose(1, 2)
        q_v = (q + self.pos_bias_v).transpose(1, 2)

        matrix_ac = q_u @ k.transpose(-2, -1)
        matrix_bd = self.rel_shift(q_v @ p.transpose(-2, -1))
        scores = (matrix_ac + matrix_bd) / math.sqrt(self.d_k)

        if mask is not None:
            drop = mask[:, None, None, :].eq(0)
            scores = scores.masked_fill(drop, torch.finfo(scores.dtype).min)
            attn = scores.softmax(-1).masked_fill(drop, 0.0)
        else:
            attn = scores.softmax(-1)
        y = self.dropout(attn) @ v
        return self.linear_out(y.transpose(1, 2).reshape(B, T, self.h * self.d_k))


class ConvModule(nn.Module):
    def __init__(self, c: int, kernel: int = 15):
        super().__init__()
        self.pw1 = nn.Conv1d(c, 2 * c, 1)
        self.dw = nn.Conv1d(c, c, kernel, padding=kernel // 2, groups=c)
        self.norm = nn.GroupNorm(1, c)
        self.pw2 = nn.Conv1d(c, c, 1)

    def forward(self, x, mask=None):
        x = nn.functional.glu(self.pw1(x.transpose(1, 2)), dim=1)
        if mask is not None:
            x = x * mask[:, None, :].to(x.dtype)
        return self.pw2(nn.functional.silu(self.norm(self.dw(x)))).transpose(1, 2)


class ConformerLayer(nn.Module):
    def __init__(self, c=144, heads=4, drop=0.1):
        super().__init__()
        mk = lambda: nn.Sequential(nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.SiLU(), nn.Dropout(drop), nn.Linear(4 * c, c))
        self.ff1, self.ff2 = mk(), mk()
        self.n_att, self.n_conv, self.n_out = nn.LayerNorm(c), nn.LayerNorm(c), nn.LayerNorm(c)
        self.pos = RelPositionalEncoding(c)
        self.att = RelPositionMultiHeadedAttention(heads, c, drop)
        self.conv = ConvModule(c)

    def forward(self, x, mask=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.n_att(x), self.pos(x.size(1)), mask)
        x = x + self.conv(self.n_conv(x), mask)
        return self.n_out(x + 0.5 * self.ff2(x))
