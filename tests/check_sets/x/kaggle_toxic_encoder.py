# Toxic comment challenge - transformer encoder from scratch (exported from notebook)
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

# In[4]:
class CFG:
    vocab_size = 500
    max_len = 40
    d_model = 32
    n_heads = 4
    n_layers = 2
    d_ff = 64
    n_labels = 6
    dropout = 0.1

# In[5]:
class PosEnc(nn.Module):
    def __init__(self, d, max_len):
        super().__init__()
        pe = np.zeros((max_len, d))
        pos = np.arange(max_len)[:, None]
        div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
        pe[:, 0::2] = np.sin(pos * div)
        pe[:, 1::2] = np.cos(pos * div)
        self.register_buffer("pe", torch.tensor(pe, dtype=torch.float32)[None])

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]

# In[6]:
class MHA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.n_heads
        self.dk = cfg.d_model // cfg.n_heads
        self.lq = nn.Linear(cfg.d_model, cfg.d_model)
        self.lk = nn.Linear(cfg.d_model, cfg.d_model)
        self.lv = nn.Linear(cfg.d_model, cfg.d_model)
        self.lo = nn.Linear(cfg.d_model, cfg.d_model)
        self.do = nn.Dropout(cfg.dropout)

    def forward(self, x, mask):
        bs, n, _ = x.shape
        q = self.lq(x).view(bs, n, self.h, self.dk).transpose(1, 2)
        k = self.lk(x).view(bs, n, self.h, self.dk).transpose(1, 2)
        v = self.lv(x).view(bs, n, self.h, self.dk).transpose(1, 2)
        s = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.dk)   # bs, h, n, n
        m = mask.unsqueeze(1).unsqueeze(3)
        s = s.masked_fill(m == 0, -1e9)
        a = self.do(F.softmax(s, dim=-1))
        o = torch.matmul(a, v).transpose(1, 2).contiguous().view(bs, n, -1)
        return self.lo(o)

# In[7]:
class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mha = MHA(cfg)
        self.n1 = nn.LayerNorm(cfg.d_model)
        self.n2 = nn.LayerNorm(cfg.d_model)
        self.ff = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_ff), nn.ReLU(), nn.Linear(cfg.d_ff, cfg.d_model))
        self.do = nn.Dropout(cfg.dropout)

    def forward(self, x, mask):
        x = self.n1(x + self.do(self.mha(x, mask)))
        return self.n2(x + self.do(self.ff(x)))

class ToxicNet(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab_size, cfg.d_model)
        self.pe = PosEnc(cfg.d_model, cfg.max_len)
        self.layers = nn.ModuleList([Layer(cfg) for _ in range(cfg.n_layers)])
        self.out = nn.Linear(cfg.d_model, cfg.n_labels)

    def forward(self, input_ids, attention_mask):
        """input_ids (bs, n), attention_mask (bs, n): 1 for tokens, 0 for [PAD]"""
        x = self.pe(self.emb(input_ids))
        for l in self.layers:
            x = l(x, attention_mask)
        w = attention_mask.unsqueeze(-1).float()
        return self.out((x * w).sum(1) / w.sum(1).clamp(min=1))
