"""Minimal decoder for on-device inference.

Weights come from a flat state dict in the Llama naming.  Rotary embedding is the
half-split ("rotate_half") kind; keys are stored in the cache after rotation, so
old entries never have to be touched again.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F

SPEC = dict(dim=64, heads=8, kv_heads=2, layers=2, ffn=96, vocab=97, ctx=128, base=10000.0, eps=1e-5)


def rms(x, w, eps):
    return F.rms_norm(x, (x.shape[-1],), w, eps)


def rope_tables(head_dim, ctx, base):
    inv = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    f = torch.outer(torch.arange(ctx).float(), inv)
    f = torch.cat([f, f], dim=-1)
    return f.cos(), f.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class KV:
    __slots__ = ("k", "v")

    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def push(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v


class EdgeAttention:
    """Stateful: call with the prompt first, then with one or more new tokens.

    x [B, T, dim] -> [B, T, dim]; causal with respect to everything seen so far.
    """

    def __init__(self, sd: dict, prefix: str, spec: dict, tables):
        self.wq, self.wk, self.wv, self.wo = (
            sd[f"{prefix}.{n}_proj.weight"] for n in ("q", "k", "v", "o"))
        self.h, self.g = spec["heads"], spec["kv_heads"]
        self.d = spec["dim"] // self.h
        self.cos, self.sin = tables
        self.kv = KV()

    def reset(self):
        self.kv = KV()

    def __call__(self, x):
        B, T, _ = x.shape
        q = (x @ self.wq.T).view(B, T, self.h, self.d).transpose(1, 2)
        k = (x @ self.wk.T).view(B, T, self.g, self.d).transpose(1, 2)
        v = (x @ self.wv.T).view(B, T, self.g, self.d).transpose(1, 2)

        past = len(self.kv)
        q = rotate(q, self.cos[:T].to(x.dtype), self.sin[:T].to(x.dtype))
        k = rotate(k, self.cos[past:past + T].to(x.dtype), self.sin[past:past + T].to(x.dtype))
        k, v = self.kv.push(k, v)

        rep = self.h // self.g
        k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return y.transpose(1, 2).reshape(B, T, -1) @ self.wo.T


class EdgeDecoder:
    def __init__(self, sd, spec=SPEC):
        self.sd, self.spec = sd, spec
        tables = rope_tables(spec["dim"] // spec["heads"], spec["ctx"], spec["base"])
        self.attn = [EdgeAttention(sd, f"model.layers.{i}.self_attn", spec, tables) for i in range(spec["layers"])]

    @torch.no_grad()
    def step(self, ids):
        x = self.sd["model.embed_tokens.weight"][ids]
        eps = self.spec["eps"]
        for i, attn in enumerate(self.attn):
            p = f"model.layers.{i}."
            x = x + attn(rms(x, self.sd[p + "input_layernorm.weight"], eps))
            z = rms(x, self.sd[p + "post_attention_layernorm.weight"], eps)
            z = F.silu(z @ self.sd[p + "mlp.gate_proj.weight"].T) * (z @ self.sd[p + "mlp.up_proj.weight"].T)
            x = x + z @ self.sd[p + "mlp.down_proj.weight"].T
        return rms(x[:, -1], self.sd["model.norm.weight"], eps) @ self.sd["lm_head.weight"].T

    def generate(self, ids, n):
        for a in self.attn:
            a.reset()
        out, cur = [ids], ids
        for _ in range(n):
            cur = self.step(cur).argmax(-1, keepdim=True)
            out.append(cur)
        return torch.cat(out, 1)
