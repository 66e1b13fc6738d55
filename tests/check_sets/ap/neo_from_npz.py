# neo_from_npz: run a GPT-NeoX style checkpoint (dict of arrays, HF names) with NumPy only.
# Rotary embedding as in GPT-NeoX: dimension i turns together with dimension i + rot/2,
# both with frequency base^(-2i/rot); only the first rot = pct * head dimensions turn.
import math

import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def layer_norm(x, w, b, eps=1e-5):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * w + b


def rotate_half(x):
    n = x.shape[-1] // 2
    return np.concatenate([-x[..., n:], x[..., :n]], axis=-1)


def cos_sin(positions, rot, base):
    inv = 1.0 / base ** (np.arange(0, rot, 2) / rot)
    ang = np.repeat(np.outer(positions, inv), 2, axis=-1)
    return np.cos(ang), np.sin(ang)


def turn(x, cos, sin):
    rot = cos.shape[-1]
    head, rest = x[..., :rot], x[..., rot:]
    return np.concatenate([head * cos + rotate_half(head) * sin, rest], axis=-1)


class NeoModel:
    def __init__(self, w, n_head, n_layer, rotary_pct=0.5, base=10000.0, parallel=True):
        self.w, self.n_head, self.n_layer = w, n_head, n_layer
        self.rotary_pct, self.base, self.parallel = rotary_pct, base, parallel

    def _lin(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def attn(self, i, x):
        """x (T, D) -> (T, D), causal"""
        T, D = x.shape
        hs = D // self.n_head
        pre = f"gpt_neox.layers.{i}.attention."
        qkv = self._lin(pre + "query_key_value", x).reshape(T, self.n_head, 3, hs)
        q, k, v = (qkv[:, :, j].transpose(1, 0, 2) for j in range(3))
        cos, sin = cos_sin(np.arange(T), int(hs * self.rotary_pct), self.base)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        att = q @ k.transpose(0, 2, 1) / math.sqrt(hs)
        att = np.where(np.tri(T, dtype=bool), att, -np.inf)
        att = att - att.max(-1, keepdims=True)
        att = np.exp(att)
        att /= att.sum(-1, keepdims=True)
        y = (att @ v).transpose(1, 0, 2).reshape(T, D)
        return self._lin(pre + "dense", y)

    def mlp(self, i, x):
        pre = f"gpt_neox.layers.{i}.mlp."
        return self._lin(pre + "dense_4h_to_h", gelu(self._lin(pre + "dense_h_to_4h", x)))

    def _ln(self, name, x):
        return layer_norm(x, self.w[name + ".weight"], self.w[name + ".bias"])

    def logits(self, ids):
        x = self.w["gpt_neox.embed_in.weight"][np.asarray(ids)]
        for i in range(self.n_layer):
            pre = f"gpt_neox.layers.{i}."
            a = self.attn(i, self._ln(pre + "input_layernorm", x))
            if self.parallel:
                x = x + a + self.mlp(i, self._ln(pre + "post_attention_layernorm", x))
            else:
                x = x + a
                x = x + self.mlp(i, self._ln(pre + "post_attention_layernorm", x))
        x = self._ln("gpt_neox.final_layer_norm", x)
        return x @ self.w["embed_out.weight"].T

    def nll(self, ids):
        z = self.logits(ids[:-1])
        z = z - z.max(-1, keepdims=True)
        lp = z - np.log(np.exp(z).sum(-1, keepdims=True))
        return -lp[np.arange(len(ids) - 1), ids[1:]].mean()
