"""Multi-head latent attention with the absorbed decode path."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class MLAConfig:
    hidden: int = 64
    heads: int = 4
    kv_rank: int = 24
    nope: int = 16
    rope: int = 8
    v_dim: int = 12
    base: float = 10000.0


def apply_rope(x, pos, base):
    # x [..., L, d]; pairs (2i, 2i+1)
    d = x.shape[-1]
    freq = base ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    ang = pos[:, None].float() * freq
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    z = z * torch.polar(torch.ones_like(ang), ang)
    return torch.view_as_real(z).flatten(-2).type_as(x)


class LatentAttention(nn.Module):
    """Keys and values are re-created from one low-rank latent per token; a single
    rotary key is shared by the heads. Only latent + rotary key are cached, and
    the up-projections are absorbed in the query and in the output."""

    def __init__(self, cfg=MLAConfig()):
        super().__init__()
        self.cfg = cfg
        self.wq = nn.Linear(cfg.hidden, cfg.heads * (cfg.nope + cfg.rope), bias=False)
        self.wkv_a = nn.Linear(cfg.hidden, cfg.kv_rank + cfg.rope, bias=False)
        self.kv_norm = nn.LayerNorm(cfg.kv_rank)
        self.wkv_b = nn.Linear(cfg.kv_rank, cfg.heads * (cfg.nope + cfg.v_dim), bias=False)
        self.wo = nn.Linear(cfg.heads * cfg.v_dim, cfg.hidden, bias=False)
        self.softmax_scale = (cfg.nope + cfg.rope) ** -0.5

    def forward(self, x, cache=None):
        c = self.cfg
        b, n, _ = x.shape
        past = 0 if cache is None else cache[0].shape[1]
        pos = torch.arange(past, past + n, device=x.device)

        q = self.wq(x).view(b, n, c.heads, c.nope + c.rope)
        q_nope, q_pe = q.split([c.nope, c.rope], dim=-1)
        q_pe = apply_rope(q_pe.transpose(1, 2), pos, c.base)             # b h n r

        latent, k_pe = self.wkv_a(x).split([c.kv_rank, c.rope], dim=-1)
        latent = self.kv_norm(latent)
        k_pe = apply_rope(k_pe, pos, c.base)                              # b n r
        if cache is not None:
            latent = torch.cat([cache[0], latent], dim=1)
            k_pe = torch.cat([cache[1], k_pe], dim=1)

        w_uk, w_uv = self.wkv_b.weight.view(c.heads, c.nope + c.v_dim, c.kv_rank).split([c.nope, c.v_dim], dim=1)
        q_lat = torch.einsum("bnhd,hdr->bhnr", q_nope, w_uk)
        s = torch.einsum("bhnr,btr->bhnt", q_lat, latent) + torch.einsum("bhnr,btr->bhnt", q_pe, k_pe)
        s = s * self.softmax_scale
        t = torch.arange(past + n, device=x.device)
        s = s.masked_fill(t[None, :] > pos[:, None], float("-inf"))
        p = s.softmax(dim=-1, dtype=torch.float32).type_as(x)

        o = torch.einsum("bhnt,btr->bhnr", p, latent)
        o = torch.einsum("bhnr,hvr->bnhv", o, w_uv)
        return self.wo(o.flatten(2)), (latent, k_pe)
