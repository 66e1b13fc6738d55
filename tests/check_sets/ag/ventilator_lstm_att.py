#!/usr/bin/env python
# coding: utf-8

# # Ventilator pressure: BiLSTM + attention
# 
# v7: added the attention block between the two LSTMs. CV 0.187 -> 0.181

# In[1]:


import numpy as np
import torch
import torch.nn as nn


class Config:
    seq_len = 80
    cont = ["time_step", "u_in", "u_in_lag1", "u_in_cumsum", "u_in_diff", "area"]
    n_R, n_C = 3, 3
    emb = 4
    hidden = 64
    heads = 4
    dropout = 0.0


# In[2]:


def add_features(u_in, t):
    """u_in, t: (n_breaths, 80)"""
    lag = np.roll(u_in, 1, axis=1)
    lag[:, 0] = 0
    dt = np.diff(t, axis=1, prepend=t[:, :1])
    return np.stack([t, u_in, lag, u_in.cumsum(1), u_in - lag, (u_in * dt).cumsum(1)], -1)


# In[3]:


class AttBlock(nn.Module):
    """self attention over the time steps of one breath, residual + norm"""

    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        y, _ = self.mha(x, x, x, need_weights=False)
        return self.ln(x + y)


class VentilatorModel(nn.Module):
    def __init__(self, cfg=Config):
        super().__init__()
        self.emb_R = nn.Embedding(cfg.n_R, cfg.emb)
        self.emb_C = nn.Embedding(cfg.n_C, cfg.emb)
        self.inp = nn.Sequential(nn.Linear(len(cfg.cont) + 2 * cfg.emb, cfg.hidden),
                                 nn.LayerNorm(cfg.hidden), nn.ReLU())
        self.lstm1 = nn.LSTM(cfg.hidden, cfg.hidden, batch_first=True, bidirectional=True)
        self.att = AttBlock(2 * cfg.hidden, cfg.heads, cfg.dropout)
        self.lstm2 = nn.LSTM(2 * cfg.hidden, cfg.hidden, batch_first=True, bidirectional=True)
        self.head = nn.Sequential(nn.Linear(2 * cfg.hidden, 50), nn.SELU(), nn.Linear(50, 1))
        self._init_lstm(self.lstm1)
        self._init_lstm(self.lstm2)

    @staticmethod
    def _init_lstm(lstm):
        for name, p in lstm.named_parameters():
            if "weight_ih" in name:
                nn.init.xavier_uniform_(p)
            elif "weight_hh" in name:
                nn.init.orthogonal_(p)
            else:
                nn.init.zeros_(p)

    def forward(self, cont, R, C):
        # cont (bs, 80, n_feat); R, C (bs,)
        emb = torch.cat([self.emb_R(R), self.emb_C(C)], dim=-1)
        emb = emb.unsqueeze(1).expand(-1, cont.size(1), -1)
        x = self.inp(torch.cat([cont, emb], dim=-1))
        x, _ = self.lstm1(x)
        x = self.att(x)
        x, _ = self.lstm2(x)
        return self.head(x).squeeze(-1)


# In[4]:


class MaskedL1(nn.Module):
    """only the inspiratory phase (u_out == 0) is scored"""

    def forward(self, pred, y, u_out):
        w = (u_out == 0).to(pred.dtype)
        return ((pred - y).abs() * w).sum() / w.sum()


# In[5]:


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    u = rng.random((8, Config.seq_len)).astype(np.float32)
    t = np.tile(np.linspace(0, 2.5, Config.seq_len, dtype=np.float32), (8, 1))
    x = torch.from_numpy(add_features(u, t).astype(np.float32))
    model = VentilatorModel()
    R, C = torch.randint(0, 3, (8,)), torch.randint(0, 3, (8,))
    p = model(x, R, C)
    loss = MaskedL1()(p, torch.rand(8, Config.seq_len), torch.zeros(8, Config.seq_len))
    loss.backward()
    print(p.shape, loss.item())
