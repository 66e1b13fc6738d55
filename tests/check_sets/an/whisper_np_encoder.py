# tiny numpy port of the audio encoder, weights come as {"encoder.blocks.0.attn.query.weight": ndarray, ...}
import math

import numpy as np


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def ln(x, g, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def sinusoids(length, channels, max_timescale=10000):
    assert channels % 2 == 0
    inc = np.log(max_timescale) / (channels // 2 - 1)
    inv = np.exp(-inc * np.arange(channels // 2))
    t = np.arange(length)[:, None] * inv[None, :]
    return np.concatenate([np.sin(t), np.cos(t)], axis=1)


def _lin(x, W, pre, bias=True):
    y = x @ W[pre + ".weight"].T
    return y + W[pre + ".bias"] if bias else y


def enc_attention(x, W, pre, n_head, n_frames=None):
    """x (batch, frames, state). n_frames: list with the number of valid frames of
    every clip; later frames are padding and are not attended to."""
    b, t, s = x.shape
    hd = s // n_head
    # like the original: both sides get hd ** -0.25, key has no bias
    sc = hd ** -0.25
    q = (_lin(x, W, pre + ".query") * sc).reshape(b, t, n_head, hd).transpose(0, 2, 1, 3)
    k = (_lin(x, W, pre + ".key", bias=False) * sc).reshape(b, t, n_head, hd).transpose(0, 2, 3, 1)
    v = _lin(x, W, pre + ".value").reshape(b, t, n_head, hd).transpose(0, 2, 1, 3)
    qk = q @ k
    if n_frames is not None:
        pad = np.arange(t)[None, :] >= np.asarray(n_frames)[:, None]
        qk = np.where(pad[:, None, None, :], -np.inf, qk)
    qk = qk - qk.max(axis=-1, keepdims=True)
    e = np.exp(qk)
    w = e / e.sum(axis=-1, keepdims=True)
    wv = (w @ v).transpose(0, 2, 1, 3).reshape(b, t, s)
    return _lin(wv, W, pre + ".out")


def block(x, W, pre, n_head, n_frames=None):
    h = ln(x, W[pre + ".attn_ln.weight"], W[pre + ".attn_ln.bias"])
    x = x + enc_attention(h, W, pre + ".attn", n_head, n_frames)
    h = ln(x, W[pre + ".mlp_ln.weight"], W[pre + ".mlp_ln.bias"])
    return x + _lin(gelu(_lin(h, W, pre + ".mlp.0")), W, pre + ".mlp.2")


def encode(feats, W, n_layer, n_head, n_frames=None):
    x = feats + sinusoids(feats.shape[1], feats.shape[2])
    for i in range(n_layer):
        x = block(x, W, f"encoder.blocks.{i}", n_head, n_frames)
    return ln(x, W["encoder.ln_post.weight"], W["encoder.ln_post.bias"])
