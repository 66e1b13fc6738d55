"""Multi-head latent attention with the compressed cache of DeepSeek-V2.

Only the latent c_kv (rank `r`) and one shared rotary key per token are cached.  At decode
time W_UK is absorbed into the query and W_UV into the output, so K and V never exist.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LatentCfg:
    dim: int = 48
    n_heads: int = 4
    q_rank: int = 24
    kv_rank: int = 16
    nope: int = 8
    rope: int = 4
    v_dim: int = 10
    theta: float = 10000.0


def build_freqs_cis(n, dim, theta):
    f = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    return torch.polar(torch.ones(n, dim // 2), torch.outer(torch.arange(n).float(), f))


def turn(x, cis):
    """x (B, T, H, rope); cis (T, rope / 2), complex."""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis[None, :, None]).flatten(-2).type_as(x)


class MLA(nn.Module):
    def __init__(self, cfg: LatentCfg, max_len=256):
        super().__init__()
        self.cfg = cfg
        H = cfg.n_heads
        self.wq_a = nn.Linear(cfg.dim, cfg.q_rank, bias=False)
        self.q_norm = nn.LayerNorm(cfg.q_rank)
        self.wq_b = nn.Linear(cfg.q_rank, H * (cfg.nope + cfg.rope), bias=False)
        self.wkv_a = nn.Linear(cfg.dim, cfg.kv_rank + cfg.rope, bias=False)
        self.kv_norm = nn.LayerNorm(cfg.kv_rank)
        self.wkv_b = nn.Linear(cfg.kv_rank, H * (cfg.nope + cfg.v_dim), bias=False)
        self.wo = nn.Linear(H * cfg.v_dim, cfg.dim, bias=False)
        self.scale = (cfg.nope + cfg.rope) ** -0.5
        self.register_buffer("cis", build_freqs_cis(max_len, cfg.rope, cfg.theta), persistent=False)

    def _queries(self, x, cis):
        B, T, _ = x.shape
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(B, T, self.cfg.n_heads, -1)
        q_nope, q_pe = q.split([self.cfg.nope, self.cfg.rope], dim=-1)
        return q_nope, turn(q_pe, cis)

    def _latent(self, x, cis):
        c, k_pe = self.wkv_a(x).split([self.cfg.kv_rank, self.cfg.rope], dim=-1)
        return self.kv_norm(c), turn(k_pe.unsqueeze(2), cis).squeeze(2)

    def forward(self, x):
        """Whole sequence, causal, keys and values written out."""
        B, T, _ = x.shape
        H = self.cfg.n_heads
        q_nope, q_pe = self._queries(x, self.cis[:T])
        c, k_pe = self._latent(x, self.cis[:T])
        k_nope, v = self.wkv_b(c).view(B, T, H, -1).split([self.cfg.nope, self.cfg.v_dim], dim=-1)
        q = torch.cat((q_nope, q_pe), -1)
        k = torch.cat((k_nope, k_pe.unsqueeze(2).expand(-1, -1, H, -1)), -1)
        s = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.scale
        s = s + torch.full((T, T), float("-inf"), device=x.device).triu(1)
        p = s.softmax(-1, dtype=torch.float32).type_as(x)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", p, v).flatten(2))

    @torch.no_grad()
    def decode(self, x, cache=None):
        """x (B, T, dim): T new tokens after those in `cache` = (c_kv, k_pe) or None."""
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].size(1)
        cis = self.cis[past:past + T]
        q_nope, q_pe = self._queries(x, cis)
        c, k_pe = self._latent(x, cis)
        if cache is not None:
            c = torch.cat((cache[0], c), 1)
            k_pe = torch.cat((cache[1], k_pe), 1)
        w = self.wkv_b.weight.view(self.cfg.n_heads, self.cfg.nope + self.cfg.v_dim, self.cfg.kv_rank)
        w_uk, w_uv = w[:, : self.cfg.nope], w[:, self.cfg.nope:]
        q_c = torch.einsum("bqhn,hnr->bqhr", q_nope, w_uk)
        s = torch.einsum("bqhr,bkr->bhqk", q_c, c) + torch.einsum("bqhp,bkp->bhqk", q_pe, k_pe)
        future = torch.ones(T, past + T, dtype=torch.bool, device=x.device).triu(past + 1)
        p = (s * self.scale).masked_fill(future, float("-inf")).softmax(-1, dtype=torch.float32).type_as(x)
        o = torch.einsum("bhqk,bkr->bqhr", p, c)
        o = torch.einsum("bqhr,hvr->bqhv", o, w_uv)
        return self.wo(o.flatten(2)), (c, k_pe)
