"""Single GPU generation engine with chunked prefill.

A long prompt is fed in pieces of ``chunk`` tokens so that decoding requests are not
held up.  Whatever the cut, the logits must be those of one pass over the whole prompt:
token i of the sequence sees tokens 0..i.
"""
import math
from dataclasses import dataclass, field
from typing import Iterator, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class EngineConfig:
    vocab: int = 256
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: int = 2
    ffn: int = 160
    rope_theta: float = 10000.0
    chunk: int = 16


@dataclass
class LayerCache:
    k: Optional[torch.Tensor] = None
    v: Optional[torch.Tensor] = None

    def extend(self, k, v):
        self.k = k if self.k is None else torch.cat((self.k, k), dim=2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=2)
        return self.k, self.v

    def __len__(self):
        return 0 if self.k is None else self.k.size(2)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def apply_rope(x, offset, theta):
    """x [B, H, T, D]; even/odd pairs form the complex numbers, as in the Meta code"""
    t, d = x.shape[-2:]
    inv = theta ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = torch.outer(torch.arange(offset, offset + t, device=x.device).float(), inv)
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2).type_as(x)


class EngineAttention(nn.Module):
    def __init__(self, cfg: EngineConfig):
        super().__init__()
        self.cfg, self.hd = cfg, cfg.dim // cfg.n_heads
        self.wq = nn.Linear(cfg.dim, cfg.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(cfg.n_heads * self.hd, cfg.dim, bias=False)

    def forward(self, x, cache: LayerCache):
        B, T, _ = x.shape
        past = len(cache)
        q = self.wq(x).view(B, T, -1, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, -1, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, -1, self.hd).transpose(1, 2)
        q = apply_rope(q, past, self.cfg.rope_theta)
        k = apply_rope(k, past, self.cfg.rope_theta)
        k, v = cache.extend(k, v)

        rep = self.cfg.n_heads // self.cfg.n_kv_heads
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        # a single new token may see everything, a prompt needs the triangle
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class EngineBlock(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn_norm, self.ffn_norm = RMSNorm(cfg.dim), RMSNorm(cfg.dim)
        self.attn = EngineAttention(cfg)
        self.w1, self.w3 = nn.Linear(cfg.dim, cfg.ffn, bias=False), nn.Linear(cfg.dim, cfg.ffn, bias=False)
        self.w2 = nn.Linear(cfg.ffn, cfg.dim, bias=False)

    def forward(self, x, cache):
        x = x + self.attn(self.attn_norm(x), cache)
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Engine(nn.Module):
    def __init__(self, cfg: EngineConfig):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(EngineBlock(cfg) for _ in range(cfg.n_layers))
        self.norm = RMSNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def new_cache(self) -> List[LayerCache]:
        return [LayerCache() for _ in self.blocks]

    def forward(self, ids, caches):
        x = self.tok(ids)
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache)
        return self.head(self.norm(x))

    @torch.inference_mode()
    def prefill(self, ids, caches):
        logits = None
        for piece in ids.split(self.cfg.chunk, dim=1):
            logits = self(piece, caches)
        return logits[:, -1]

    @torch.inference_mode()
    def stream(self, prompt: List[int], max_new: int, temperature: float = 0.0) -> Iterator[int]:
        caches = self.new_cache()
        logits = self.prefill(torch.tensor([prompt]), caches)
        for _ in range(max_new):
            if temperature > 0:
                nxt = torch.multinomial((logits / temperature).softmax(-1), 1)
            else:
                nxt = logits.argmax(-1, keepdim=True)
            yield int(nxt)
            logits = self(nxt, caches)[:, -1]
