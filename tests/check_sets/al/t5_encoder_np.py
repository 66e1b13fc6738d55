"""T5 encoder forward in NumPy (checkpoint of t5-small as an .npz of HF names).

T5 has no 1/sqrt(d) on the logits (it is folded into the initialisation), no biases, RMS norm,
and one table of relative position biases that the first block owns and all blocks share.
"""
import numpy as np


def t5_norm(x, g):
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + 1e-6) * g


def bucket(rel, n_buckets=32, max_dist=128):
    """rel = key position - query position; bidirectional variant."""
    half = n_buckets // 2
    out = (rel > 0).astype(np.int64) * half
    rel = np.abs(rel)
    exact = half // 2
    far = exact + (np.log(np.maximum(rel, 1) / exact) / np.log(max_dist / exact) * (half - exact)).astype(np.int64)
    far = np.minimum(far, half - 1)
    return out + np.where(rel < exact, rel, far)


def position_bias(table, n):
    """table [n_buckets, H] -> [1, H, n, n]"""
    pos = np.arange(n)
    b = bucket(pos[None, :] - pos[:, None], table.shape[0])
    return table[b].transpose(2, 0, 1)[None]


def t5_self_attention(h, W, pos_bias, mask, n_heads):
    """h [B, n, D]; W = dict(q, k, v, o) in torch's (out, in) order; mask [B, n] of 1/0 (1 = token)."""
    B, n, _ = h.shape
    fold = lambda m: (h @ m.T).reshape(B, n, n_heads, -1)
    scores = np.einsum("bihd,bjhd->bhij", fold(W["q"]), fold(W["k"]))
    scores = scores + pos_bias
    scores = scores + np.where(mask[:, None, None, :] > 0, 0.0, np.finfo(scores.dtype).min / 2)
    scores = np.exp(scores - np.amax(scores, axis=-1, keepdims=True))
    w = scores / np.sum(scores, axis=-1, keepdims=True)
    y = np.einsum("bhij,bjhd->bihd", w, fold(W["v"])).reshape(B, n, -1)
    return y @ W["o"].T


class T5EncoderNumpy:
    def __init__(self, npz, n_heads):
        self.z = npz
        self.n_heads = n_heads
        self.depth = len([k for k in npz if k.endswith("layer.0.SelfAttention.q.weight")])

    def __call__(self, ids, mask):
        z = self.z
        x = z["shared.weight"][ids]
        bias = position_bias(
            z["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"], ids.shape[1])
        for i in range(self.depth):
            b = f"encoder.block.{i}."
            W = {c: z[b + f"layer.0.SelfAttention.{c}.weight"] for c in "qkvo"}
            x = x + t5_self_attention(t5_norm(x, z[b + "layer.0.layer_norm.weight"]), W, bias, mask, self.n_heads)
            h = t5_norm(x, z[b + "layer.1.layer_norm.weight"])
            h = np.maximum(h @ z[b + "layer.1.DenseReluDense.wi.weight"].T, 0)
            x = x + h @ z[b + "layer.1.DenseReluDense.wo.weight"].T
        return t5_norm(x, z["encoder.final_layer_norm.weight"])
