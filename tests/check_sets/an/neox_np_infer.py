# Small numpy runner for GPT-NeoX style checkpoints (rotary part left out: rotary_pct = 0 models).
#
# attention.query_key_value.weight has shape (3 * hidden, hidden).  As in the original
# repository the rows are grouped per head: [n_head, 3, head_size], i.e. q, k, v of head 0,
# then q, k, v of head 1, ...
import math
import json
import os

import numpy as np


def load_dir(path):
    """reads every .npy of a directory; file name = tensor name"""
    out = {f[:-4]: np.load(os.path.join(path, f)) for f in sorted(os.listdir(path)) if f.endswith(".npy")}
    with open(os.path.join(path, "config.json")) as fh:
        return out, json.load(fh)


def layernorm(x, w, name, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def softmax(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    np.exp(a, out=a)
    return a / np.sum(a, axis=-1, keepdims=True)


def attention(x, w, name, n_head, kv=None):
    """x (T, hidden); causal. kv = (k, v) of earlier tokens, each (n_head, past, head_size).
    Returns output and the longer kv."""
    T, hidden = x.shape
    hs = hidden // n_head
    fused = linear(x, w, name + ".query_key_value")
    q, k, v = fused.reshape(T, 3, n_head, hs).transpose(1, 2, 0, 3)
    if kv is not None:
        k = np.concatenate([kv[0], k], axis=1)
        v = np.concatenate([kv[1], v], axis=1)
    past = k.shape[1] - T
    s = np.matmul(q, k.swapaxes(1, 2)) / math.sqrt(hs)
    hide = np.triu(np.ones((T, past + T), dtype=bool), 1 + past)
    s = np.where(hide, -np.inf, s)
    y = np.matmul(softmax(s), v)
    return linear(y.transpose(1, 0, 2).reshape(T, hidden), w, name + ".dense"), (k, v)


def gelu(x):
    return x * 0.5 * (1 + np.tanh(0.7978845608 * x * (1 + 0.044715 * x * x)))


def layer(x, w, i, n_head, kv=None):
    p = f"gpt_neox.layers.{i}"
    a, kv = attention(layernorm(x, w, p + ".input_layernorm"), w, p + ".attention", n_head, kv)
    # parallel residual
    m = linear(gelu(linear(layernorm(x, w, p + ".post_attention_layernorm"), w,
                           p + ".mlp.dense_h_to_4h")), w, p + ".mlp.dense_4h_to_h")
    return x + a + m, kv


def generate(ids, w, cfg, n):
    ids, kvs = list(ids), [None] * cfg["num_hidden_layers"]
    feed = ids
    for _ in range(n):
        x = w["gpt_neox.embed_in.weight"][feed]
        for i in range(cfg["num_hidden_layers"]):
            x, kvs[i] = layer(x, w, i, cfg["num_attention_heads"], kvs[i])
        x = layernorm(x[-1], w, "gpt_neox.final_layer_norm")
        feed = [int(np.argmax(w["embed_out.weight"] @ x))]
        ids += feed
    return ids
