#!/usr/bin/env python
# coding: utf-8

# # Essay scoring - my transformer from scratch (public LB 0.71)
# In[1]:


import torch
import torch.nn as nn
import torch.nn.functional as F


# In[2]:


CFG = dict(max_len=64, dim=32, heads=4, vocab=500, layers=2)


# ## Attention
# mask is 1 for words, 0 for [PAD]; pads should get no attention
# In[3]:


class MHSA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, mask):
        bs, sl, dim = x.shape
        q = self.q(x).view(bs, sl, self.heads, self.hd).transpose(1, 2)
        k = self.k(x).view(bs, sl, self.heads, self.hd).transpose(1, 2)
        v = self.v(x).view(bs, sl, self.heads, self.hd).transpose(1, 2)
        sc = q @ k.transpose(-1, -2) / self.hd ** 0.5
        sc = sc.masked_fill(mask[:, None, None, :] == 0, 1e-9)
        at = F.softmax(sc, dim=-1)
        out = (at @ v).contiguous().view(bs, sl, dim)
        return self.o(out)


# In[4]:


class EssayNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        d = cfg["dim"]
        self.we = nn.Embedding(cfg["vocab"], d)
        self.pe = nn.Parameter(torch.randn(1, cfg["max_len"], d) * 0.02)
        self.at = nn.ModuleList([MHSA(d, cfg["heads"]) for _ in range(cfg["layers"])])
        self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(cfg["layers"])])
        self.out = nn.Linear(d, 1)

    def forward(self, ids, mask):
        x = self.we(ids) + self.pe[:, : ids.shape[1]]
        for a, n in zip(self.at, self.n):
            x = x + a(n(x), mask)
        m = mask.unsqueeze(-1).float()
        return self.out((x * m).sum(1) / m.sum(1).clamp(min=1))


# In[5]:


def train_epoch(model, loader, opt):
    model.train()
    tot = 0.0
    for ids, mask, y in loader:
        loss = F.mse_loss(model(ids, mask).squeeze(-1), y)
        opt.zero_grad(); loss.backward(); opt.step()
        tot += loss.item()
    return tot / max(1, len(loader))
