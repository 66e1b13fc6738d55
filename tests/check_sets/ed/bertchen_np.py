"""BERT encoder without a framework, for the tiny container.

encode(ids, mask, W, heads) -> (B, L, D)

ids   (B, L) int token ids
mask  (B, L) the tokenizer's attention_mask: 1 = token, 0 = [PAD].  First token is
      always [CLS], so no row is empty.  Outputs at [PAD] are meaningless.
W     dict of float32 arrays, names as in the export script; all matrices are stored
      (in, out), i.e. y = x @ w + b.  W["layers"] is a list of dicts with
      q_w q_b k_w k_b v_w v_b o_w o_b ln1_g ln1_b up_w up_b down_w down_b ln2_g ln2_b

Post-norm, tanh-GELU, eps 1e-12, heads of size D // heads, logits / sqrt(D // heads).
"""
import numpy as np


def layer_norm(x, g, b, eps=1e-12):
    m = x.mean(-1, keepdims=True)
    s = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * g + b


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x ** 3)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def self_attention(x, drop, p, heads):
    """drop (B, 1, 1, L): 0 for tokens, -1e9 for padding, added to the logits"""
    B, L, D = x.shape
    d = D // heads

    def split(name):
        y = x @ p[name + "_w"] + p[name + "_b"]
        return y.reshape(B, L, heads, d).swapaxes(1, 2)

    q, k, v = split("q"), split("k"), split("v")
    a = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d) + drop)
    y = (a @ v).swapaxes(1, 2).reshape(B, L, D)
    return y @ p["o_w"] + p["o_b"]


def encode(ids, mask, W, heads):
    ids, mask = np.asarray(ids), np.asarray(mask)
    x = W["word"][ids] + W["pos"][: ids.shape[1]] + W["type"][0]
    x = layer_norm(x, W["emb_g"], W["emb_b"])
    drop = (1.0 - mask[:, None, None, :].astype(np.float32)) * -1e9
    for p in W["layers"]:
        x = layer_norm(x + self_attention(x, drop, p, heads), p["ln1_g"], p["ln1_b"])
        h = gelu(x @ p["up_w"] + p["up_b"]) @ p["down_w"] + p["down_b"]
        x = layer_norm(x + h, p["ln2_g"], p["ln2_b"])
    return x
