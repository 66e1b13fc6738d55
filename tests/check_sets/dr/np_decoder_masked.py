"""Notebook 09: the masked attention of the decoder, in NumPy.

We want the prediction for word t to depend on the words 0..t only, and the attention
weights of each word to be a probability distribution (non-negative, sum 1) over those
words.

    x  : (batch, time, d_model)
    Wq, Wk, Wv : (heads, d_model, d_head)
    Wo : (heads * d_head, d_model)

    weights = softmax(q k^T / sqrt(d_head))  on the lower triangle

returns out (batch, time, d_model), weights (batch, heads, time, time)
"""
import numpy as np


def softmax(z, axis=-1):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def masked_attention(x, Wq, Wk, Wv, Wo):
    batch, time, _ = x.shape
    heads, _, d_head = Wq.shape

    q = np.einsum("btm,hmd->bhtd", x, Wq)
    k = np.einsum("btm,hmd->bhtd", x, Wk)
    v = np.einsum("btm,hmd->bhtd", x, Wv)

    scores = np.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(d_head)
    weights = softmax(scores)
    # set the weights above the main diagonal to zero
    weights = np.tril(weights)

    heads_out = np.matmul(weights, v)                        # (batch, heads, time, d_head)
    concat = heads_out.transpose(0, 2, 1, 3).reshape(batch, time, heads * d_head)
    return concat @ Wo, weights
