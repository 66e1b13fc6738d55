"""Transliterating runes with a T5 encoder, NumPy only (runs on the museum's kiosk).

Weights come as the flat dict of the exported checkpoint, names as in the original:
    SelfAttention.q / .k / .v / .o           [d_model, heads * d_kv], o transposed accordingly
    SelfAttention.relative_attention_bias    [buckets, heads]
Remember that T5 does NOT divide by sqrt(d_kv) (it is folded into the initialisation) and has
no biases.  The encoder looks both ways, so half of the buckets are for keys to the right.
"""
import numpy as np

FUTHARK = "ᚠᚢᚦᚨᚱᚲᚷᚹᚺᚾᛁᛃᛇᛈᛉᛊᛏᛒᛖᛗᛚᛜᛞᛟ"


def tokenise(inscription):
    return np.array([FUTHARK.index(c) for c in inscription if c in FUTHARK])


def bucket(rel, buckets=32, max_distance=128):
    """rel = key position - query position."""
    half = buckets // 2
    out = np.where(rel > 0, half, 0)
    n = np.abs(rel)
    exact = half // 2
    with np.errstate(divide="ignore"):
        far = exact + (np.log(n / exact) / np.log(max_distance / exact) * (half - exact))
    far = np.minimum(np.where(n < exact, 0, far), half - 1).astype(int)
    return out + np.where(n < exact, n, far)


def rms(x, g, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * g


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


class T5SelfAttention:
    def __init__(self, weights, heads, buckets=32, max_distance=128):
        self.w = weights
        self.heads = heads
        self.buckets, self.max_distance = buckets, max_distance

    def bias(self, m, n):
        rel = np.arange(n)[None, :] - np.arange(m)[:, None]
        table = self.w["SelfAttention.relative_attention_bias"]
        return table[bucket(rel, self.buckets, self.max_distance)].transpose(2, 0, 1)

    def __call__(self, x, attention_mask=None):
        """x [B, L, d_model]; attention_mask [B, L], 1 = rune, 0 = padding."""
        B, L, _ = x.shape

        def heads(name):
            return (x @ self.w["SelfAttention." + name]).reshape(B, L, self.heads, -1).transpose(0, 2, 1, 3)

        q, k, v = heads("q"), heads("k"), heads("v")
        scores = q @ k.transpose(0, 1, 3, 2)
        scores = scores + self.bias(L, L)[None]
        if attention_mask is not None:
            scores = scores + (1.0 - np.asarray(attention_mask, float))[:, None, None, :] * -1e9
        ctx = softmax(scores) @ v
        return ctx.transpose(0, 2, 1, 3).reshape(B, L, -1) @ self.w["SelfAttention.o"]


def random_weights(d_model=16, heads=2, d_kv=6, buckets=32, seed=0):
    r = np.random.default_rng(seed)
    w = {f"SelfAttention.{n}": r.normal(0, (d_model * (d_kv if n == "q" else 1)) ** -0.5, (d_model, heads * d_kv))
         for n in "qkv"}
    w["SelfAttention.o"] = r.normal(0, (heads * d_kv) ** -0.5, (heads * d_kv, d_model))
    w["SelfAttention.relative_attention_bias"] = r.normal(0, 1, (buckets, heads))
    w["layer_norm"] = np.ones(d_model)
    w["shared"] = r.normal(0, 1, (len(FUTHARK), d_model))
    return w


if __name__ == "__main__":
    w = random_weights()
    ids = tokenise("ᚺᛚᛖᚹᚨᚷᚨᛊᛏᛁᛉ")
    x = w["shared"][ids][None]
    print((x + T5SelfAttention(w, heads=2)(rms(x, w["layer_norm"]))).shape)
