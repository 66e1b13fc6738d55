"""Minimal GPT-NeoX / Pythia runner on plain state dicts (no transformers).

Layout of the checkpoint: `attention.query_key_value.weight` is [3 * hidden, hidden] and
its rows are grouped BY HEAD: q, k and v of head 0, then q, k and v of head 1, and so on.
Rotary is applied to the first rotary_pct of every head (rotate_half convention).
"""
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F

PYTHIA_TOY = SimpleNamespace(hidden=32, heads=4, layers=2, vocab=64, rotary_pct=0.25, theta=10000, eps=1e-5,
                             parallel=True)


def ln(x, sd, name, eps):
    return F.layer_norm(x, x.shape[-1:], sd[name + ".weight"], sd[name + ".bias"], eps)


def lin(x, sd, name):
    return F.linear(x, sd[name + ".weight"], sd.get(name + ".bias"))


def rotary(x, pos, n_rot, theta):
    """x [B, H, L, d]"""
    inv = 1.0 / (theta ** (torch.arange(0, n_rot, 2).float() / n_rot))
    ang = torch.outer(pos.float(), inv)
    ang = torch.cat([ang, ang], dim=-1)
    r, keep = x[..., :n_rot], x[..., n_rot:]
    half = n_rot // 2
    turned = torch.cat([-r[..., half:], r[..., :half]], dim=-1)
    return torch.cat([r * ang.cos() + turned * ang.sin(), keep], dim=-1)


def attention(x, sd, pre, cfg, past=None):
    B, L, _ = x.shape
    d = cfg.hidden // cfg.heads
    qkv = lin(x, sd, pre + "query_key_value")
    qkv = qkv.view(B, L, 3, cfg.heads, d)
    q, k, v = (t.transpose(1, 2) for t in qkv.unbind(dim=2))

    start = 0 if past is None else past[0].size(2)
    pos = torch.arange(start, start + L)
    n_rot = int(d * cfg.rotary_pct)
    q, k = rotary(q, pos, n_rot, cfg.theta), rotary(k, pos, n_rot, cfg.theta)
    if past is not None:
        k = torch.cat([past[0], k], dim=2)
        v = torch.cat([past[1], v], dim=2)

    scores = (q @ k.transpose(-2, -1)) / math.sqrt(d)
    causal = torch.arange(k.size(2))[None, :] <= pos[:, None]
    scores = scores.masked_fill(~causal, float("-inf"))
    y = F.softmax(scores, dim=-1) @ v
    y = y.transpose(1, 2).reshape(B, L, cfg.hidden)
    return lin(y, sd, pre + "dense"), (k, v)


def mlp(x, sd, pre):
    return lin(F.gelu(lin(x, sd, pre + "dense_h_to_4h")), sd, pre + "dense_4h_to_h")


@torch.no_grad()
def run(ids, sd, cfg, past=None):
    x = sd["gpt_neox.embed_in.weight"][ids]
    new = []
    for i in range(cfg.layers):
        p = f"gpt_neox.layers.{i}."
        a, kv = attention(ln(x, sd, p + "input_layernorm", cfg.eps), sd, p + "attention.", cfg,
                          None if past is None else past[i])
        new.append(kv)
        if cfg.parallel:
            x = x + a + mlp(ln(x, sd, p + "post_attention_layernorm", cfg.eps), sd, p + "mlp.")
        else:
            x = x + a
            x = x + mlp(ln(x, sd, p + "post_attention_layernorm", cfg.eps), sd, p + "mlp.")
    x = ln(x, sd, "gpt_neox.final_layer_norm", cfg.eps)
    return x @ sd["embed_out.weight"].T, new


def complete(ids, sd, cfg, n):
    logits, past = run(ids, sd, cfg)
    for _ in range(n):
        nxt = logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, nxt], dim=1)
        logits, past = run(nxt, sd, cfg, past)
    return ids


def toy_checkpoint(cfg=PYTHIA_TOY, seed=0):
    g = torch.Generator().manual_seed(seed)
    h = cfg.hidden
    sd = {"gpt_neox.embed_in.weight": torch.randn(cfg.vocab, h, generator=g) * 0.3,
          "embed_out.weight": torch.randn(cfg.vocab, h, generator=g) * 0.3}
    for i in range(cfg.layers):
        p = f"gpt_neox.layers.{i}."
        for name, o, n in (("attention.query_key_value", 3 * h, h), ("attention.dense", h, h),
                           ("mlp.dense_h_to_4h", 4 * h, h), ("mlp.dense_4h_to_h", h, 4 * h)):
            sd[p + name + ".weight"] = torch.randn(o, n, generator=g) * n ** -0.5
            sd[p + name + ".bias"] = torch.randn(o, generator=g) * 0.02
    names = ["gpt_neox.final_layer_norm"]
    names += [f"gpt_neox.layers.{i}.{n}" for i in range(cfg.layers) for n in ("input_layernorm", "post_attention_layernorm")]
    for n in names:
        sd[n + ".weight"], sd[n + ".bias"] = torch.ones(h), torch.zeros(h)
    return sd
