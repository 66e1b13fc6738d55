# BERT encoder without torch: reads the names of the HF checkpoint (bert.encoder.layer.N....)
# Usage:
#   sd = dict(np.load("bert-base-uncased.npz"))
#   seq = MiniBert(sd, heads=12).encode(ids, types, attention_mask)
import math
import numpy as np

_erf = np.vectorize(math.erf)


def gelu(x):
    return x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))


def norm(x, sd, name, eps=1e-12):
    m = x.mean(-1, keepdims=True)
    s = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * sd[name + ".weight"] + sd[name + ".bias"]


def dense(x, sd, name):
    return x @ sd[name + ".weight"].T + sd[name + ".bias"]


def stable_softmax(z):
    """softmax over the last axis"""
    top = np.exp(z - z.max(axis=-1, keepdims=True))
    return top / np.exp(z).sum(axis=-1, keepdims=True)


class MiniBert:
    def __init__(self, sd, heads):
        self.sd = sd
        self.heads = heads
        self.layers = 1 + max(int(k.split(".")[3]) for k in sd if k.startswith("bert.encoder.layer."))

    def embed(self, ids, types):
        e = "bert.embeddings."
        x = self.sd[e + "word_embeddings.weight"][ids]
        x = x + self.sd[e + "position_embeddings.weight"][: ids.shape[1]][None]
        x = x + self.sd[e + "token_type_embeddings.weight"][types]
        return norm(x, self.sd, e + "LayerNorm")

    def self_attention(self, x, mask, pre):
        """x [B, T, D]; mask [B, T], 1 for a real token, 0 for [PAD]."""
        B, T, D = x.shape
        d = D // self.heads

        def cut(name):
            return dense(x, self.sd, pre + name).reshape(B, T, self.heads, d).swapaxes(1, 2)

        q, k, v = cut("self.query"), cut("self.key"), cut("self.value")
        logits = np.matmul(q, k.swapaxes(-1, -2)) / math.sqrt(d)
        logits = logits + (1.0 - mask[:, None, None, :]) * -10000.0
        probs = stable_softmax(logits)
        ctx = np.matmul(probs, v).swapaxes(1, 2).reshape(B, T, D)
        return norm(dense(ctx, self.sd, pre + "output.dense") + x, self.sd, pre + "output.LayerNorm")

    def encode(self, ids, types, mask):
        x = self.embed(ids, types)
        for i in range(self.layers):
            p = "bert.encoder.layer.%d." % i
            x = self.self_attention(x, mask.astype(x.dtype), p + "attention.")
            h = gelu(dense(x, self.sd, p + "intermediate.dense"))
            x = norm(dense(h, self.sd, p + "output.dense") + x, self.sd, p + "output.LayerNorm")
        return x
