"""Reaction yield from SMILES tokens.  Everything is built from one configuration.

    CONFIG["attention"]:
        dim, heads    heads of width dim / heads, scores divided by sqrt(dim / heads)
        logit_cap     float c or None; with c the scores become c * tanh(score / c)
                      before the padding is masked
    build(CONFIG) -> YieldModel;  YieldModel(ids, mask) -> [B]
        ids   [B, L] int token ids
        mask  [B, L] bool, True = token, False = padding (>= 1 token each)
"""
import torch
from torch import nn

CONFIG = {
    "vocab": 64,
    "attention": {"dim": 32, "heads": 2, "logit_cap": 1.5},
    "head": {"hidden": 16},
}


class Attention(nn.Module):
    def __init__(self, dim, heads, logit_cap=None):
        super().__init__()
        self.dim, self.heads, self.width = dim, heads, dim // heads
        self.logit_cap = logit_cap
        self.scale = heads ** -0.5
        self.lin = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("q", "k", "v", "o")})

    def split(self, name, x):
        return self.lin[name](x).unflatten(-1, (self.heads, self.width)).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = (self.split(n, x) for n in "qkv")
        s = (q * self.scale) @ k.transpose(-1, -2)
        s = s.masked_fill(~mask[:, None, None, :], float("-inf"))
        y = s.softmax(-1) @ v
        y = y.reshape(x.size(0), x.size(1), self.dim)
        return self.lin["o"](y)


class YieldModel(nn.Module):
    def __init__(self, vocab, att, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, att.dim)
        self.norm = nn.LayerNorm(att.dim)
        self.att = att
        self.top = nn.Sequential(nn.Linear(att.dim, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, ids, mask):
        x = self.emb(ids)
        x = x + self.att(self.norm(x), mask)
        m = mask.unsqueeze(-1).to(x.dtype)
        return torch.sigmoid(self.top((x * m).sum(1) / m.sum(1))).squeeze(-1)


def build(cfg=CONFIG):
    return YieldModel(cfg["vocab"], Attention(**cfg["attention"]), cfg["head"]["hidden"])
