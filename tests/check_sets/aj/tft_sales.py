#!/usr/bin/env python
# coding: utf-8

# # Store sales - temporal fusion transformer (only the parts we changed)
# exported from tft_sales.ipynb

# In[1]:
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


# In[4]:
class GLU(nn.Module):
    def __init__(self, d, dropout=0.0):
        super().__init__()
        self.fc = nn.Linear(d, 2 * d)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return F.glu(self.fc(self.drop(x)), dim=-1)


class GRN(nn.Module):
    def __init__(self, d, d_ctx=None, dropout=0.0):
        super().__init__()
        self.a = nn.Linear(d, d)
        self.c = nn.Linear(d_ctx, d, bias=False) if d_ctx else None
        self.b = nn.Linear(d, d)
        self.gate = GLU(d, dropout)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, ctx=None):
        h = self.a(x)
        if ctx is not None:
            h = h + self.c(ctx)
        return self.norm(x + self.gate(self.b(F.elu(h))))


# In[5]:
class InterpretableMultiHead(nn.Module):
    """Section 4.4 of the paper: every head has its own queries and keys, the values are
    shared by all heads, and the heads are averaged before the output layer:

        H~ = 1/H sum_h  softmax(Q W_q^h (K W_k^h)^T / sqrt(d_attn)) V W_v
    """

    def __init__(self, n_head, d_model, dropout=0.0):
        super().__init__()
        self.n_head = n_head
        self.d_k = self.d_v = d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_v)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.w_h = nn.Linear(self.d_v, d_model, bias=False)
        self.attn_dropout = nn.Dropout(dropout)
        self.out_dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, blocked=None):
        """blocked [Lq, Lk] or [B, Lq, Lk], True = no access. Returns output and mean weights."""
        vs = self.v_layer(v)
        heads, attns = [], []
        for wq, wk in zip(self.q_layers, self.k_layers):
            s = torch.bmm(wq(q), wk(k).transpose(1, 2)) / math.sqrt(self.d_k)
            if blocked is not None:
                s = s.masked_fill(blocked, -1e9)
            a = torch.softmax(s, dim=2)
            heads.append(torch.bmm(self.attn_dropout(a), vs))
            attns.append(a)
        attn = torch.stack(attns, 0).mean(0)
        out = torch.stack(heads, 0).mean(0) if self.n_head > 1 else heads[0]
        return self.out_dropout(self.w_h(out)), attn


# In[7]:
def decoder_block_mask(n_past, n_future, device=None):
    """queries are the future days only; a day sees all of the past, itself and the days before it"""
    q = torch.arange(n_past, n_past + n_future, device=device)
    k = torch.arange(n_past + n_future, device=device)
    return k[None, :] > q[:, None]


class TFTDecoder(nn.Module):
    def __init__(self, d=64, n_head=4, dropout=0.1, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = nn.LSTM(d, d, batch_first=True)
        self.gate_lstm, self.norm_lstm = GLU(d, dropout), nn.LayerNorm(d)
        self.static = GRN(d, d, dropout)
        self.attn = InterpretableMultiHead(n_head, d, dropout)
        self.gate_attn, self.norm_attn = GLU(d, dropout), nn.LayerNorm(d)
        self.ff = GRN(d, None, dropout)
        self.out = nn.Linear(d, len(quantiles))

    def forward(self, past, future, static):
        hp, st = self.enc(past)
        hf, _ = self.dec(future, st)
        seq = torch.cat([hp, hf], 1)
        seq = self.norm_lstm(torch.cat([past, future], 1) + self.gate_lstm(seq))
        seq = self.static(seq, static.unsqueeze(1))
        n_p, n_f = past.size(1), future.size(1)
        a, w = self.attn(seq[:, n_p:], seq, seq, decoder_block_mask(n_p, n_f, seq.device))
        h = self.norm_attn(seq[:, n_p:] + self.gate_attn(a))
        return self.out(self.ff(h)), w


def quantile_loss(pred, y, quantiles=(0.1, 0.5, 0.9)):
    q = pred.new_tensor(quantiles)
    e = y.unsqueeze(-1) - pred
    return torch.maximum(q * e, (q - 1) * e).mean()


# In[9]:
if __name__ == "__main__":
    net = TFTDecoder()
    yhat, w = net(torch.randn(8, 28, 64), torch.randn(8, 7, 64), torch.randn(8, 64))
    print(yhat.shape, w.shape, quantile_loss(yhat, torch.randn(8, 7)).item())
