"""
nano_llm: a single-file decoder-only language model.

    cfg = NanoConfig(vocab_size=96, n_layer=2)
    model = NanoLM(cfg)
    logits, loss, _ = model(idx, targets)
    model.generate(idx, 20)
"""
from dataclasses import dataclass
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class NanoConfig:
    vocab_size: int = 96
    block_size: int = 128
    n_layer: int = 2
    n_head: int = 6
    n_kv_head: int = 2
    n_embd: int = 48
    rope_base: float = 10000.0
    norm_eps: float = 1e-6


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.g = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        n = x.float()
        n = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + self.eps)
        return n.to(x.dtype) * self.g


def rope_table(n, hd, base):
    inv = base ** (-torch.arange(0, hd, 2).float() / hd)
    ang = torch.outer(torch.arange(n).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)      # complex, (n, hd/2)


def spin(x, tab):
    # x (B,T,H,D): neighbouring channels are one complex number
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    z = z * tab[None, :, None, :]
    return torch.view_as_real(z).flatten(-2).type_as(x)


class CausalAttn(nn.Module):
    def __init__(self, cfg: NanoConfig):
        super().__init__()
        assert cfg.n_head % cfg.n_kv_head == 0
        self.nh, self.nkv = cfg.n_head, cfg.n_kv_head
        self.hd = cfg.n_embd // cfg.n_head
        self.wq = nn.Linear(cfg.n_embd, self.nh * self.hd, bias=False)
        self.wkv = nn.Linear(cfg.n_embd, 2 * self.nkv * self.hd, bias=False)
        self.wo = nn.Linear(self.nh * self.hd, cfg.n_embd, bias=False)

    def forward(self, x, tab, past=None):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.nh, self.hd)
        k, v = self.wkv(x).view(B, T, 2, self.nkv, self.hd).unbind(2)
        q, k = spin(q, tab), spin(k, tab)
        if past is not None:
            k = torch.cat((past[0], k), dim=1)
            v = torch.cat((past[1], v), dim=1)
        S = k.size(1)
        # group the query heads instead of repeating the keys
        q = q.view(B, T, self.nkv, self.nh // self.nkv, self.hd)
        att = torch.einsum('btgrd,bsgd->bgrts', q, k) * self.hd ** -0.5
        row = torch.arange(S - T, S, device=x.device)[:, None]
        col = torch.arange(S, device=x.device)[None]
        att = att.masked_fill(col > row, float('-inf'))
        att = F.softmax(att.float(), dim=-1).type_as(v)
        y = torch.einsum('bgrts,bsgd->btgrd', att, v).reshape(B, T, -1)
        return self.wo(y), (k, v)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = RMSNorm(cfg.n_embd, cfg.norm_eps), RMSNorm(cfg.n_embd, cfg.norm_eps)
        self.attn = CausalAttn(cfg)
        hid = 4 * cfg.n_embd
        self.up = nn.Linear(cfg.n_embd, 2 * hid, bias=False)
        self.down = nn.Linear(hid, cfg.n_embd, bias=False)

    def forward(self, x, tab, past=None):
        a, kv = self.attn(self.n1(x), tab, past)
        x = x + a
        u, g = self.up(self.n2(x)).chunk(2, -1)
        return x + self.down(F.silu(g) * u), kv


class NanoLM(nn.Module):
    def __init__(self, cfg: Optional[NanoConfig] = None):
        super().__init__()
        self.cfg = cfg = cfg or NanoConfig()
        self.emb = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.n_layer)])
        self.norm = RMSNorm(cfg.n_embd, cfg.norm_eps)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.head.weight = self.emb.weight
        self.register_buffer('tab', rope_table(cfg.block_size, cfg.n_embd // cfg.n_head, cfg.rope_base),
                             persistent=False)

    def forward(self, idx, targets=None, past: Optional[List[Tuple]] = None):
        t0 = 0 if past is None else past[0][0].size(1)
        T = idx.size(1)
        x, kvs = self.emb(idx), []
        for i, b in enumerate(self.blocks):
            x, kv = b(x, self.tab[t0:t0 + T], None if past is None else past[i])
            kvs.append(kv)
        logits = self.head(self.norm(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss, kvs

    @torch.no_grad()
    def generate(self, idx, n_new, temperature=1.0):
        logits, _, kv = self(idx)
        for _ in range(n_new):
            nxt = (logits[:, -1] / temperature).argmax(-1, keepdim=True)
            idx = torch.cat((idx, nxt), 1)
            logits, _, kv = self(nxt, past=kv)
        return idx
