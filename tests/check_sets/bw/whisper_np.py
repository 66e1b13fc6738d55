"""Whisper text decoder block in NumPy, for running on a Raspberry Pi.

Same names as openai/whisper. Like there, d**-0.25 multiplies both q and k.
The keys and values of the audio are computed once per clip and kept in `cache`.
"""
import numpy as np
from math import erf

_erf = np.vectorize(erf)


def gelu(x):
    return 0.5 * x * (1 + _erf(x / np.sqrt(2)))


def layer_norm(x, w, b):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + 1e-5) * w + b


def qkv_attention(q, k, v, n_head, mask=None):
    # q: [n, c], k and v: [m, c]
    n, c = q.shape
    d = c // n_head
    s = d ** -0.25
    q = q.reshape(n, n_head, d).transpose(1, 0, 2) * s
    k = k.reshape(-1, n_head, d).transpose(1, 2, 0) * s
    v = v.reshape(-1, n_head, d).transpose(1, 0, 2)
    qk = q @ k
    if mask is not None:
        qk = qk + mask
    qk = qk - qk.max(-1, keepdims=True)
    w = np.exp(qk)
    w /= w.sum(-1, keepdims=True)
    return (w @ v).transpose(1, 0, 2).reshape(n, c), w


class DecoderBlock:
    def __init__(self, sd, prefix, n_head):
        self.p = {k[len(prefix):]: v for k, v in sd.items() if k.startswith(prefix)}
        self.n_head = n_head

    def lin(self, x, name):
        y = x @ self.p[name + ".weight"].T
        b = self.p.get(name + ".bias")        # "key" has no bias
        return y if b is None else y + b

    def ln(self, x, name):
        return layer_norm(x, self.p[name + ".weight"], self.p[name + ".bias"])

    def __call__(self, x, audio, cache):
        """x: [n, c] new tokens, audio: [m, c] encoder output, cache: dict."""
        h = self.ln(x, "attn_ln")
        k, v = self.lin(h, "attn.key"), self.lin(h, "attn.value")
        if "k" in cache:
            k = np.concatenate([cache["k"], k])
            v = np.concatenate([cache["v"], v])
        cache["k"], cache["v"] = k, v
        n, total = len(x), len(k)
        mask = np.triu(np.full((n, total), -np.inf), k=1 + total - n)
        a, _ = qkv_attention(self.lin(h, "attn.query"), k, v, self.n_head, mask)
        x = x + self.lin(a, "attn.out")

        if "xk" not in cache:
            cache["xk"] = self.lin(audio, "cross_attn.key")
            cache["xv"] = self.lin(audio, "cross_attn.value")
        q = self.lin(self.ln(x, "cross_attn_ln"), "cross_attn.query")
        a, w = qkv_attention(q, cache["xk"], cache["xv"], self.n_head)
        x = x + self.lin(a, "cross_attn.out")

        h = self.lin(self.ln(x, "mlp_ln"), "mlp.0")
        return x + self.lin(gelu(h), "mlp.2"), w


def random_state(c=24, prefix="decoder.blocks.0.", seed=0):
    r = np.random.default_rng(seed)
    sd = {}
    for a in ("attn", "cross_attn"):
        for m in ("query", "key", "value", "out"):
            sd[f"{prefix}{a}.{m}.weight"] = r.standard_normal((c, c)) / c ** 0.5
            if m != "key":
                sd[f"{prefix}{a}.{m}.bias"] = 0.1 * r.standard_normal(c)
    sd[prefix + "mlp.0.weight"] = r.standard_normal((4 * c, c)) / c ** 0.5
    sd[prefix + "mlp.0.bias"] = np.zeros(4 * c)
    sd[prefix + "mlp.2.weight"] = r.standard_normal((c, 4 * c)) / (4 * c) ** 0.5
    sd[prefix + "mlp.2.bias"] = np.zeros(c)
    for n in ("attn_ln", "cross_attn_ln", "mlp_ln"):
        sd[f"{prefix}{n}.weight"], sd[f"{prefix}{n}.bias"] = np.ones(c), np.zeros(c)
    return sd


if __name__ == "__main__":
    blk = DecoderBlock(random_state(), "decoder.blocks.0.", n_head=3)
    r, cache = np.random.default_rng(1), {}
    audio = r.standard_normal((10, 24))
    for chunk in (4, 1, 1):
        y, w = blk(r.standard_normal((chunk, 24)), audio, cache)
    print(y.shape, w.shape)
