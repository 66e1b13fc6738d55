"""Encoder layer of a speech recogniser, NumPy port of the published checkpoint.

Names follow the checkpoint: ``blocks.<i>.attn.query`` and so on.  The key
projection has no bias; query, value and out have one.  The attention is
bidirectional over the 1500 (here: any number of) audio positions and q and k
are both scaled by head_dim ** -0.25.
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))


def norm(x, g, b):
    m = x.mean(-1, keepdims=True)
    s = x.std(-1, keepdims=True)
    return (x - m) / np.sqrt(s ** 2 + 1e-5) * g + b


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class Weights(dict):
    """Dict of arrays that can be narrowed to a prefix."""

    def sub(self, prefix):
        p = prefix + "."
        return Weights({k[len(p):]: v for k, v in self.items() if k.startswith(p)})


def multi_head(x, w, n_head):
    n_ctx, n_state = x.shape
    hd = n_state // n_head
    q = x @ w["query.weight"].T + w["query.bias"]
    k = x @ w["key.weight"].T
    v = x @ w["key.weight"].T + w["value.bias"]
    q, k, v = (t.reshape(n_ctx, n_head, hd).transpose(1, 0, 2) for t in (q, k, v))
    scale = hd ** -0.25
    qk = (q * scale) @ (k * scale).transpose(0, 2, 1)
    wv = softmax(qk) @ v
    wv = wv.transpose(1, 0, 2).reshape(n_ctx, n_state)
    return wv @ w["out.weight"].T + w["out.bias"]


def encoder_block(x, w, n_head=4):
    """x: (positions, n_state), one utterance."""
    x = x + multi_head(norm(x, w["attn_ln.weight"], w["attn_ln.bias"]), w.sub("attn"), n_head)
    h = norm(x, w["mlp_ln.weight"], w["mlp_ln.bias"])
    h = gelu(h @ w["mlp.0.weight"].T + w["mlp.0.bias"])
    return x + h @ w["mlp.2.weight"].T + w["mlp.2.bias"]


def encode(x, weights, n_layer, n_head=4):
    for i in range(n_layer):
        x = encoder_block(x, weights.sub(f"blocks.{i}"), n_head)
    return x


def fake_checkpoint(n_state=32, n_layer=1, seed=0):
    rng = np.random.default_rng(seed)
    mat = lambda o, i: rng.normal(0, i ** -0.5, (o, i))
    w = Weights()
    for i in range(n_layer):
        p = f"blocks.{i}."
        for name in ("query", "key", "value", "out"):
            w[p + f"attn.{name}.weight"] = mat(n_state, n_state)
            if name != "key":
                w[p + f"attn.{name}.bias"] = rng.normal(0, 0.1, n_state)
        w[p + "mlp.0.weight"], w[p + "mlp.0.bias"] = mat(4 * n_state, n_state), np.zeros(4 * n_state)
        w[p + "mlp.2.weight"], w[p + "mlp.2.bias"] = mat(n_state, 4 * n_state), np.zeros(n_state)
        for ln in ("attn_ln", "mlp_ln"):
            w[p + ln + ".weight"], w[p + ln + ".bias"] = np.ones(n_state), np.zeros(n_state)
    return w
