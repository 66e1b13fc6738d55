"""NLP course, project 2: a tiny GPT that writes poems.

For the report we plot attention maps, hence every layer returns them:
maps[l] is (B, H, T, T), each row a probability distribution over the tokens
at or before the query, in training as well as in evaluation.
"""
import torch
import torch.nn as nn
from torch.nn import functional as F


class Config:
    vocab = 65
    block = 32
    n_embd = 32
    n_head = 4
    n_layer = 2
    dropout = 0.1


class CausalSelfAttention(nn.Module):
    """returns (output (B, T, C), attention map (B, H, T, T))"""

    def __init__(self, cfg=Config):
        super().__init__()
        self.n_head = cfg.n_head
        self.c_attn = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.c_proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.attn_dropout = nn.Dropout(cfg.dropout)
        self.resid_dropout = nn.Dropout(cfg.dropout)
        future = torch.triu(torch.ones(cfg.block, cfg.block), diagonal=2).bool()
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        att = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)
        att = att.masked_fill(self.future[:T, :T], float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y)), att


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = CausalSelfAttention(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(),
            nn.Linear(4 * cfg.n_embd, cfg.n_embd), nn.Dropout(cfg.dropout),
        )

    def forward(self, x):
        y, att = self.attn(self.ln_1(x))
        x = x + y
        return x + self.mlp(self.ln_2(x)), att


class PoemGPT(nn.Module):
    def __init__(self, cfg=Config):
        super().__init__()
        self.cfg = cfg
        self.wte = nn.Embedding(cfg.vocab, cfg.n_embd)
        self.wpe = nn.Embedding(cfg.block, cfg.n_embd)
        self.h = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln_f = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe.weight[: idx.size(1)]
        maps = []
        for block in self.h:
            x, att = block(x)
            maps.append(att)
        logits = self.head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return logits, loss, maps
