import numpy as np


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def linear(x, w, b):
    return x @ w + b


def mha(x, c_attn, c_proj, n_head):
    """Causal self-attention with the weights of the released checkpoint.

    x: [n_seq, n_embd]
    c_attn: {"w": [n_embd, 3 * n_embd], "b": [3 * n_embd]}, the columns of the query first, then of the key, then of the value
    c_proj: {"w": [n_embd, n_embd], "b": [n_embd]}
    """
    x = linear(x, **c_attn)
    q, v, k = np.split(x, 3, axis=-1)
    q, k, v = [np.split(z, n_head, axis=-1) for z in (q, k, v)]
    causal_mask = (1 - np.tri(x.shape[0])) * -1e10
    out = [softmax(a @ b.T / np.sqrt(a.shape[-1]) + causal_mask) @ c for a, b, c in zip(q, k, v)]
    return linear(np.hstack(out), **c_proj)
