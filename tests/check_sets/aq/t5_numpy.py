"""T5 encoder in NumPy for the edge box. Reads the arrays of an .npz export of the HF weights.

Linear weights stand as in PyTorch, (out, in).
"""
import numpy as np


def rms(x, g, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def softmax(z):
    z = z - z.max(-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(-1, keepdims=True)


def rel_bucket(rel, num=32, far=128):
    num //= 2
    out = (rel > 0).astype(np.int64) * num
    rel = np.abs(rel)
    near = num // 2
    big = near + (np.log(np.maximum(rel, 1) / near) / np.log(far / near) * (num - near)).astype(np.int64)
    return out + np.where(rel < near, rel, np.minimum(big, num - 1))


class T5EncoderNP:
    """T5 has no 1/sqrt(d): the factor is folded into the initialisation of the q weights.
    The relative bias is a table of block 0, used by every block."""

    def __init__(self, weights, n_layers, n_heads, d_kv):
        self.w, self.n, self.h, self.d = weights, n_layers, n_heads, d_kv

    def position_bias(self, length):
        p = np.arange(length)
        tab = self.w["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return tab[rel_bucket(p[None, :] - p[:, None])].transpose(2, 0, 1)[None]

    def self_attention(self, i, x, keep, bias):
        """keep [B, L], 1 for tokens and 0 for padding; no sentence is empty"""
        pre = f"encoder.block.{i}.layer.0.SelfAttention."
        b, l, _ = x.shape

        def heads(name):
            return (x @ self.w[pre + name + ".weight"].T).reshape(b, l, self.h, self.d).transpose(0, 2, 1, 3)

        q, k, v = heads("q"), heads("k"), heads("v")
        s = q @ k.swapaxes(-1, -2) + bias
        s = np.where(keep[:, None, None, :].astype(bool), s, np.finfo(s.dtype).min)
        y = (softmax(s) @ v).transpose(0, 2, 1, 3).reshape(b, l, self.h * self.d)
        return y @ self.w[pre + "o.weight"].T

    def feed_forward(self, i, x):
        pre = f"encoder.block.{i}.layer.1.DenseReluDense."
        return np.maximum(x @ self.w[pre + "wi.weight"].T, 0) @ self.w[pre + "wo.weight"].T

    def __call__(self, ids, keep):
        x = self.w["shared.weight"][ids]
        bias = self.position_bias(ids.shape[1])
        for i in range(self.n):
            g = self.w[f"encoder.block.{i}.layer.0.layer_norm.weight"]
            x = x + self.self_attention(i, rms(x, g), keep, bias)
            x = x + self.feed_forward(i, rms(x, self.w[f"encoder.block.{i}.layer.1.layer_norm.weight"]))
        return rms(x, self.w["encoder.final_layer_norm.weight"])
