"""T5 inference straight from a state dict, functions only.

    w = torch.load("pytorch_model.bin")
    print(t5_greedy(w, cfg, input_ids, input_mask, 20))

T5 has no 1/sqrt(d): the factor is folded into the initialisation of its q matrices, so the
trained weights expect raw dot products.  The relative-position bias lives in the first
block of each stack and is used by all of its blocks; cross-attention has none.
"""
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F


def bucket(rel, bidirectional, n_buckets, max_distance):
    """rel = key position - query position"""
    out = torch.zeros_like(rel)
    if bidirectional:
        n_buckets //= 2
        out = out + (rel > 0).long() * n_buckets
        n = rel.abs()
    else:
        n = (-rel).clamp(min=0)
    exact = n_buckets // 2
    far = exact + (
        torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (n_buckets - exact)
    ).long()
    return out + torch.where(n < exact, n, far.clamp(max=n_buckets - 1))


def position_bias(w, cfg, stack, n_q, n_k, offset=0):
    q = torch.arange(offset, offset + n_q)[:, None]
    k = torch.arange(n_k)[None]
    table = w[f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    ids = bucket(k - q, stack == "encoder", cfg.buckets, cfg.max_distance)
    return table[ids].permute(2, 0, 1)[None]                         # [1, heads, n_q, n_k]


def rms(x, g, eps=1e-6):
    return g * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def t5_attention(w, pre, cfg, x, kv, bias=None, keep=None, past=None):
    """x [B, n, d] asks kv [B, m, d].  keep: bool, broadcastable to [B, heads, n, m].
    past: earlier (k, v) in front of the new ones.  Returns output and (k, v)."""
    B, n, _ = x.shape

    def heads(t):
        return t.view(B, -1, cfg.heads, cfg.d_kv).transpose(1, 2)

    q = heads(x @ w[f"{pre}.q.weight"].T)
    k = heads(kv @ w[f"{pre}.k.weight"].T)
    v = heads(kv @ w[f"{pre}.v.weight"].T)
    if past is not None:
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    s = q @ k.transpose(2, 3)
    if bias is not None:
        s = s + bias
    if keep is not None:
        s = s.masked_fill(~keep, torch.finfo(s.dtype).min)
    p = F.softmax(s.float(), dim=-1).type_as(s)
    o = (p @ v).transpose(1, 2).reshape(B, n, cfg.heads * cfg.d_kv)
    return o @ w[f"{pre}.o.weight"].T, (k, v)


def feed_forward(w, pre, x):
    h = rms(x, w[f"{pre}.layer_norm.weight"])
    h = torch.relu(h @ w[f"{pre}.DenseReluDense.wi.weight"].T)
    return x + h @ w[f"{pre}.DenseReluDense.wo.weight"].T


def encode(w, cfg, ids, mask):
    x = w["shared.weight"][ids]
    n = ids.shape[1]
    bias = position_bias(w, cfg, "encoder", n, n)
    keep = mask.bool()[:, None, None]
    for i in range(cfg.layers):
        p = f"encoder.block.{i}.layer"
        h = rms(x, w[f"{p}.0.layer_norm.weight"])
        x = x + t5_attention(w, f"{p}.0.SelfAttention", cfg, h, h, bias, keep)[0]
        x = feed_forward(w, f"{p}.1", x)
    return rms(x, w["encoder.final_layer_norm.weight"])


def decode_step(w, cfg, ids, enc, mask, pasts):
    """ids [B, n]: the newest n tokens.  pasts: list (one per block) of (k, v) or None, changed here."""
    x = w["shared.weight"][ids]
    n = ids.shape[1]
    before = 0 if pasts[0] is None else pasts[0][0].shape[2]
    bias = position_bias(w, cfg, "decoder", n, before + n, before)
    causal = torch.ones(n, before + n, dtype=torch.bool).tril(before)
    for i in range(cfg.layers):
        p = f"decoder.block.{i}.layer"
        h = rms(x, w[f"{p}.0.layer_norm.weight"])
        y, pasts[i] = t5_attention(w, f"{p}.0.SelfAttention", cfg, h, h, bias, causal, pasts[i])
        x = x + y
        h = rms(x, w[f"{p}.1.layer_norm.weight"])
        x = x + t5_attention(w, f"{p}.1.EncDecAttention", cfg, h, enc, None, mask.bool()[:, None, None])[0]
        x = feed_forward(w, f"{p}.2", x)
    x = rms(x, w["decoder.final_layer_norm.weight"])
    return (x * cfg.d_model ** -0.5) @ w["shared.weight"].T


@torch.no_grad()
def t5_greedy(w, cfg, ids, mask, n):
    enc = encode(w, cfg, ids, mask)
    tok, pasts, out = torch.zeros(ids.shape[0], 1, dtype=torch.long), [None] * cfg.layers, []
    for _ in range(n):
        tok = decode_step(w, cfg, tok, enc, mask, pasts)[:, -1:].argmax(-1)
        out.append(tok)
    return torch.cat(out, 1)


def random_state(cfg, seed=0):
    g = torch.Generator().manual_seed(seed)
    inner, w = cfg.heads * cfg.d_kv, {}

    def put(name, *shape, std):
        w[name + ".weight"] = torch.randn(*shape, generator=g) * std

    put("shared", cfg.vocab, cfg.d_model, std=1.0)
    for stack, kinds in (("encoder", ["SelfAttention"]), ("decoder", ["SelfAttention", "EncDecAttention"])):
        w[f"{stack}.final_layer_norm.weight"] = torch.ones(cfg.d_model)
        put(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias", cfg.buckets, cfg.heads, std=0.5)
        for i in range(cfg.layers):
            for j, kind in enumerate(kinds + ["ff"]):
                p = f"{stack}.block.{i}.layer.{j}"
                w[f"{p}.layer_norm.weight"] = torch.ones(cfg.d_model)
                if kind == "ff":
                    put(f"{p}.DenseReluDense.wi", cfg.d_ff, cfg.d_model, std=cfg.d_model ** -0.5)
                    put(f"{p}.DenseReluDense.wo", cfg.d_model, cfg.d_ff, std=cfg.d_ff ** -0.5)
                else:
                    put(f"{p}.{kind}.q", inner, cfg.d_model, std=(cfg.d_model * cfg.d_kv) ** -0.5)
                    put(f"{p}.{kind}.k", inner, cfg.d_model, std=cfg.d_model ** -0.5)
                    put(f"{p}.{kind}.v", inner, cfg.d_model, std=cfg.d_model ** -0.5)
                    put(f"{p}.{kind}.o", cfg.d_model, inner, std=inner ** -0.5)
    return w


SMALL = SimpleNamespace(d_model=32, d_kv=8, heads=4, d_ff=64, layers=2, vocab=50, buckets=32, max_distance=128)

if __name__ == "__main__":
    ids = torch.tensor([[5, 6, 7, 8, 1], [9, 3, 1, 0, 0]])
    print(t5_greedy(random_state(SMALL), SMALL, ids, ids != 0, 6))
