#!/usr/bin/env python3
# bloom_numpy.py -- run (small) BLOOM checkpoints without any framework.
#
#   weights: dict name -> np.ndarray, names as in the HF checkpoint, that is
#     word_embeddings.weight, word_embeddings_layernorm.{weight,bias},
#     h.{i}.input_layernorm.*, h.{i}.self_attention.query_key_value.*, ...
#
import argparse
import math

import numpy as np


def load(path):
    with np.load(path) as z:
        return {k: z[k].astype(np.float32) for k in z.files}


class Conf:
    def __init__(self, n_layer=24, n_head=16, hidden=1024, eps=1e-5):
        self.n_layer = n_layer
        self.n_head = n_head
        self.hidden = hidden
        self.eps = eps

    @property
    def head_dim(self):
        return self.hidden // self.n_head


def ln(x, w, b, eps):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + eps) * w + b


def linear(x, W, name):
    return x @ W[name + ".weight"].T + W[name + ".bias"]


def bloom_gelu(x):
    return x * 0.5 * (1.0 + np.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def head_slopes(n_head):
    """ALiBi slopes of Press et al.: the geometric sequence 2^(-8/n), 2^(-16/n),
    ..., 2^(-8) for n heads (n a power of two, all BLOOM sizes we ship are)."""
    if not math.log2(n_head).is_integer():
        raise ValueError("n_head must be a power of two, got %d" % n_head)
    return np.array([2.0 ** (-8.0 * h / n_head) for h in range(n_head)], dtype=np.float32)


def softmax_(s):
    s = s - s.max(-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(-1, keepdims=True)
    return s


def self_attention(x, W, pre, conf, past=None):
    """x [t, hidden] -> [t, hidden]; causal, with ALiBi.

    query_key_value packs the rows head by head: q, k, v of head 0, then q, k, v
    of head 1 ...  `past` is (k, v) of earlier tokens, each [H, t_past, d].
    """
    t = x.shape[0]
    H, d = conf.n_head, conf.head_dim
    fused = linear(x, W, pre + "query_key_value").reshape(t, H, 3, d)
    q = fused[:, :, 0].transpose(1, 0, 2)
    k = fused[:, :, 1].transpose(1, 0, 2)
    v = fused[:, :, 2].transpose(1, 0, 2)
    if past is not None:
        k = np.concatenate([past[0], k], axis=1)
        v = np.concatenate([past[1], v], axis=1)
    n = k.shape[1]
    qpos = np.arange(n - t, n)[:, None]
    kpos = np.arange(n)[None, :]

    s = np.matmul(q, k.transpose(0, 2, 1)) * (1.0 / math.sqrt(d))
    s = s + head_slopes(H)[:, None, None] * (kpos - qpos)
    s = np.where(kpos <= qpos, s, np.float32(-1e30))
    ctx = np.matmul(softmax_(s), v)
    ctx = ctx.transpose(1, 0, 2).reshape(t, H * d)
    return linear(ctx, W, pre + "dense"), (k, v)


def mlp(x, W, pre):
    return linear(bloom_gelu(linear(x, W, pre + "dense_h_to_4h")), W, pre + "dense_4h_to_h")


def forward(ids, W, conf, cache=None):
    x = W["word_embeddings.weight"][ids]
    x = ln(x, W["word_embeddings_layernorm.weight"], W["word_embeddings_layernorm.bias"], conf.eps)
    new_cache = []
    for i in range(conf.n_layer):
        p = "h.%d." % i
        h = ln(x, W[p + "input_layernorm.weight"], W[p + "input_layernorm.bias"], conf.eps)
        a, kv = self_attention(h, W, p + "self_attention.", conf, cache[i] if cache else None)
        new_cache.append(kv)
        x = x + a
        h = ln(x, W[p + "post_attention_layernorm.weight"],
               W[p + "post_attention_layernorm.bias"], conf.eps)
        x = x + mlp(h, W, p + "mlp.")
    x = ln(x, W["ln_f.weight"], W["ln_f.bias"], conf.eps)
    return x @ W["word_embeddings.weight"].T, new_cache


def greedy(ids, W, conf, n):
    logits, cache = forward(np.asarray(ids), W, conf)
    out = list(ids)
    for _ in range(n):
        out.append(int(logits[-1].argmax()))
        logits, cache = forward(np.asarray(out[-1:]), W, conf, cache)
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("npz")
    ap.add_argument("--ids", type=int, nargs="+", required=True)
    ap.add_argument("-n", type=int, default=16)
    a = ap.parse_args()
    print(greedy(a.ids, load(a.npz), Conf(), a.n))


if __name__ == "__main__":
    main()
