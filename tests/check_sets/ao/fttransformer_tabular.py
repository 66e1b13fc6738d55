# FT-Transformer for the "playground s3e22" competition (CV 0.9071, LB 0.9043)
# one token per column, CLS token in front
import math
import torch
from torch import nn


class CFG:
    n_num = 7
    cat_sizes = (4, 9, 3)
    dim = 48
    heads = 6
    depth = 3
    attn_drop = 0.1
    ffn_drop = 0.1
    n_out = 3


class FeatureTokenizer(nn.Module):
    def __init__(self, n_num, cat_sizes, dim):
        super().__init__()
        self.w = nn.Parameter(torch.empty(n_num + 1, dim))
        self.b = nn.Parameter(torch.zeros(n_num + len(cat_sizes), dim))
        nn.init.kaiming_uniform_(self.w, a=math.sqrt(5))
        offs = [0]
        for s in cat_sizes[:-1]:
            offs.append(offs[-1] + s)
        self.register_buffer("offs", torch.tensor(offs))
        self.emb = nn.Embedding(sum(cat_sizes), dim)

    def forward(self, num, cat):
        one = torch.ones(num.size(0), 1, device=num.device, dtype=num.dtype)
        x = torch.cat([one, num], 1)[..., None] * self.w[None]
        x = torch.cat([x, self.emb(cat + self.offs)], 1)
        bias = torch.cat([torch.zeros_like(self.b[:1]), self.b])
        return x + bias


class ColAttention(nn.Module):
    """attention between the columns of one row of the table"""

    def __init__(self, cfg=CFG):
        super().__init__()
        assert cfg.dim % cfg.heads == 0
        self.h = cfg.heads
        self.q = nn.Linear(cfg.dim, cfg.dim)
        self.kv = nn.Linear(cfg.dim, 2 * cfg.dim)
        self.o = nn.Linear(cfg.dim, cfg.dim)
        self.drop = nn.Dropout(cfg.attn_drop)

    def forward(self, x, only_cls=False):
        n, c, d = x.shape
        xq = x[:, :1] if only_cls else x       # last layer: only CLS is needed
        q = self.q(xq).view(n, -1, self.h, d // self.h)
        k, v = self.kv(x).view(n, c, 2, self.h, d // self.h).unbind(2)
        w = torch.einsum("nihd,njhd->nijh", q, k) * (d // self.h) ** -0.5
        w = self.drop(w.softmax(2))
        out = torch.einsum("nijh,njhd->nihd", w, v)
        return self.o(out.reshape(n, -1, d))


class Block(nn.Module):
    def __init__(self, cfg, first=False):
        super().__init__()
        self.n1 = nn.Identity() if first else nn.LayerNorm(cfg.dim)
        self.n2 = nn.LayerNorm(cfg.dim)
        self.att = ColAttention(cfg)
        hid = int(cfg.dim * 4 / 3)
        self.l1 = nn.Linear(cfg.dim, hid * 2)
        self.l2 = nn.Linear(hid, cfg.dim)
        self.drop = nn.Dropout(cfg.ffn_drop)

    def forward(self, x, only_cls=False):
        r = x[:, :1] if only_cls else x
        x = r + self.att(self.n1(x), only_cls)
        a, b = self.l1(self.n2(x)).chunk(2, -1)
        return x + self.l2(self.drop(a * torch.relu(b)))


class FTT(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.tok = FeatureTokenizer(cfg.n_num, cfg.cat_sizes, cfg.dim)
        self.blocks = nn.ModuleList([Block(cfg, i == 0) for i in range(cfg.depth)])
        self.head = nn.Sequential(nn.LayerNorm(cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, cfg.n_out))

    def forward(self, num, cat):
        x = self.tok(num, cat)
        for i, b in enumerate(self.blocks):
            x = b(x, only_cls=i == len(self.blocks) - 1)
        return self.head(x[:, 0])
