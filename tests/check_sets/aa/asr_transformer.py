"""Speech-Transformer building blocks, heads folded into the batch for bmm."""
import numpy as np
import torch
import torch.nn as nn


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.bmm(q, k.transpose(1, 2)) / self.temperature
        if mask is not None:
            attn = attn.masked_fill(mask, -np.inf)
        attn = torch.softmax(attn, dim=2)
        attn = self.dropout(attn)
        return torch.bmm(attn, v), attn


class MultiHeadAttention(nn.Module):
    """Multi-head attention with residual connection and layer norm.

    mask: [B, len_q, len_k], True where attention is not allowed.
    """

    def __init__(self, n_head=4, d_model=32, d_k=8, d_v=8, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k)
        self.w_ks = nn.Linear(d_model, n_head * d_k)
        self.w_vs = nn.Linear(d_model, n_head * d_v)
        self.attention = ScaledDotProductAttention(np.power(d_k, 0.5), dropout)
        self.fc = nn.Linear(n_head * d_v, d_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model)

    def fold(self, x, d):
        b, l, _ = x.size()
        x = x.view(b, l, self.n_head, d)
        return x.permute(2, 0, 1, 3).contiguous().view(-1, l, d)

    def forward(self, q, k, v, mask=None):
        b, len_q, _ = q.size()
        residual = q
        q = self.fold(self.w_qs(q), self.d_k)
        k = self.fold(self.w_ks(k), self.d_k)
        v = self.fold(self.w_vs(v), self.d_v)
        if mask is not None:
            mask = mask.repeat(self.n_head, 1, 1)

        output, attn = self.attention(q, k, v, mask=mask)
        output = output.view(b, self.n_head, len_q, self.d_v)
        output = output.permute(0, 2, 1, 3).contiguous().view(b, len_q, -1)

        output = self.dropout(self.fc(output))
        return self.layer_norm(output + residual), attn


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model=32, d_ff=48, dropout=0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.layer_norm(x + self.dropout(self.w_2(torch.relu(self.w_1(x)))))
