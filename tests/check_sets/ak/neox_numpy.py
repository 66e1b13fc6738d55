"""
GPT-NeoX / Pythia in numpy, straight from the checkpoint's tensors.

Checkpoint layout (HF names, torch convention, weights are [out, in]):
  gpt_neox.layers.N.attention.query_key_value.weight   [heads * 3 * head_dim, hidden]
      -- for every head its q, then its k, then its v
  gpt_neox.layers.N.attention.dense.weight             [hidden, hidden]
Only the first rotary_pct of each head is rotated (halves, not pairs).
"""
import json
import math

import numpy as np


def layer_norm(x, sd, name, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * sd[name + ".weight"] + sd[name + ".bias"]


def lin(x, sd, name):
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


_erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)))


def rotate(x, pos, n_rot, base=10000.0):
    """x [L, H, d]"""
    inv = 1.0 / base ** (np.arange(0, n_rot, 2) / n_rot)
    ang = np.outer(pos, inv)[:, None, :]
    c, s = np.cos(ang), np.sin(ang)
    r, rest = x[..., :n_rot], x[..., n_rot:]
    a, b = r[..., :n_rot // 2], r[..., n_rot // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1)


def self_attention(x, sd, prefix, cfg, cache=None):
    """x [L, hidden] of one text; `cache` is a dict that keeps k and v between calls."""
    L, hidden = x.shape
    heads = cfg["num_attention_heads"]
    d = hidden // heads
    fused = lin(x, sd, prefix + ".query_key_value").reshape(L, 3, heads, d)
    q, k, v = fused[:, 0], fused[:, 1], fused[:, 2]

    start = 0 if not cache else cache["k"].shape[0]
    pos = np.arange(start, start + L)
    n_rot = int(d * cfg["rotary_pct"])
    q, k = rotate(q, pos, n_rot), rotate(k, pos, n_rot)
    if cache is not None:
        if cache:
            k = np.concatenate([cache["k"], k])
            v = np.concatenate([cache["v"], v])
        cache["k"], cache["v"] = k, v

    w = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(d)
    w = np.where(np.arange(k.shape[0])[None, :] > pos[:, None], -np.inf, w)
    w = np.exp(w - w.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    y = np.einsum("hqk,khd->qhd", w, v).reshape(L, hidden)
    return lin(y, sd, prefix + ".dense")


def layer(x, sd, n, cfg, cache=None):
    p = f"gpt_neox.layers.{n}"
    a = self_attention(layer_norm(x, sd, p + ".input_layernorm"), sd, p + ".attention", cfg, cache)
    h = layer_norm(x, sd, p + ".post_attention_layernorm")
    m = lin(gelu(lin(h, sd, p + ".mlp.dense_h_to_4h")), sd, p + ".mlp.dense_4h_to_h")
    return x + a + m                      # use_parallel_residual


def logits(ids, sd, cfg, caches=None):
    x = sd["gpt_neox.embed_in.weight"][np.asarray(ids)]
    for n in range(cfg["num_hidden_layers"]):
        x = layer(x, sd, n, cfg, None if caches is None else caches[n])
    x = layer_norm(x, sd, "gpt_neox.final_layer_norm")
    return x @ sd["embed_out.weight"].T


def greedy(ids, sd, cfg, n_new):
    caches = [{} for _ in range(cfg["num_hidden_layers"])]
    out, feed = list(ids), list(ids)
    for _ in range(n_new):
        nxt = int(logits(feed, sd, cfg, caches)[-1].argmax())
        out.append(nxt)
        feed = [nxt]
    return out


def read(config_path, npz_path):
    with open(config_path) as f:
        cfg = json.load(f)
    with np.load(npz_path) as z:
        sd = {k: z[k].astype(np.float32) for k in z.files}
    return cfg, sd
