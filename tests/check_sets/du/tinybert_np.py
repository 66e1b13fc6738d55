"""BERT encoder layer in NumPy, to check my C++ inference against something readable.

Weights come from the HF state dict, already transposed to (in, out).  Only the attention part
and its LayerNorm; the MLP is trivial.  Should match BertAttention in eval mode up to 1e-5:
per head softmax(q k^T / sqrt(head_size)), heads side by side again, dense, add & norm.
"""
import numpy as np


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-12):
    mu = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * g + b


def bert_attention(hidden, attention_mask, W, n_heads):
    """
    hidden          (B, S, D) float
    attention_mask  (B, S) ints, 1 = token, 0 = [PAD]; position 0 is always 1
    W               dict with query/key/value/dense as (weight (D, D), bias (D,)) and
                    ln = (gamma, beta)
    returns         (B, S, D)
    """
    B, S, D = hidden.shape
    hs = D // n_heads

    def lin(name, x):
        w, b = W[name]
        return x @ w + b

    def split(x):
        return x.reshape(B, S, n_heads, hs).transpose(0, 2, 1, 3)

    q = split(lin("query", hidden))
    k = split(lin("key", hidden))
    v = split(lin("value", hidden))

    scores = q @ k.transpose(0, 1, 3, 2)
    scores = scores / np.sqrt(hidden.shape[-1])
    scores = np.where(attention_mask[:, None, None, :] == 1, scores, -np.inf)
    probs = softmax(scores)
    ctx = probs @ v
    ctx = ctx.reshape(B, S, D)
    return layer_norm(hidden + lin("dense", ctx), *W["ln"])
