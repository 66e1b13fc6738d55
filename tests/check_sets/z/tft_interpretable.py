"""Temporal Fusion Transformer: decoder part with the interpretable attention.

Lim et al. 2019, eq. 13-16: every head has its own query and key weights, while the value
weights are SHARED, so the mean of the heads' attention is itself an attention and can be
shown to the user.
"""
import numpy as np
import torch
from torch import nn


class ScaledDotProduct(nn.Module):
    def __init__(self, attn_dropout=0.0):
        super().__init__()
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask):
        """mask: bool, True where attending is forbidden."""
        logit = torch.bmm(q, k.transpose(1, 2)) / np.sqrt(k.shape[-1])
        logit = logit.masked_fill(mask, -1e9)
        attn = torch.softmax(logit, dim=-1)
        return torch.bmm(self.dropout(attn), v), attn


class InterpretableMultiHeadAttention(nn.Module):
    def __init__(self, n_head, d_model, dropout):
        super().__init__()
        self.n_head = n_head
        d = d_model // n_head
        self.qs = nn.ModuleList([nn.Linear(d_model, d, bias=False) for _ in range(n_head)])
        self.ks = nn.ModuleList([nn.Linear(d_model, d, bias=False) for _ in range(n_head)])
        self.vs = nn.Linear(d_model, d, bias=False)
        self.attention = ScaledDotProduct(dropout)
        self.w_o = nn.Linear(d, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask):
        vs = self.vs(v)
        heads, attns = [], []
        for wq, wk in zip(self.qs, self.ks):
            head, attn = self.attention(wq(q), wk(k), vs, mask)
            heads.append(head)
            attns.append(attn)
        out = torch.stack(heads).mean(dim=0)
        attn = torch.stack(attns).mean(dim=0)
        return self.dropout(self.w_o(out)), attn


class GLU(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, 2 * d)

    def forward(self, x):
        return nn.functional.glu(self.fc(x), dim=-1)


class TemporalFusionDecoder(nn.Module):
    """past (B, Tp, C) and known future (B, Tf, C) features -> quantiles (B, Tf, Q).

    Steps of the past before the series begins are marked by past_len (B,): only the last
    past_len steps of the window are real.  They are never attended.
    """

    def __init__(self, d_model=32, n_head=4, dropout=0.1, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.past_lstm = nn.LSTM(d_model, d_model, batch_first=True)
        self.fut_lstm = nn.LSTM(d_model, d_model, batch_first=True)
        self.gate1, self.ln1 = GLU(d_model), nn.LayerNorm(d_model)
        self.attn = InterpretableMultiHeadAttention(n_head, d_model, dropout)
        self.gate2, self.ln2 = GLU(d_model), nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, len(quantiles))

    def forward(self, past, future, past_len):
        Tp, Tf = past.size(1), future.size(1)
        hp, state = self.past_lstm(past)
        hf, _ = self.fut_lstm(future, state)
        h = self.ln1(self.gate1(torch.cat([hp, hf], 1)) + torch.cat([past, future], 1))

        T = Tp + Tf
        idx = torch.arange(T, device=past.device)
        later = idx[None, None, :] > idx[None, Tp:, None]
        unreal = idx[None, None, :] < (Tp - past_len)[:, None, None]
        out, attn = self.attn(h[:, Tp:], h, h, later | unreal)

        out = self.ln2(self.gate2(out) + h[:, Tp:])
        return self.head(out), attn
