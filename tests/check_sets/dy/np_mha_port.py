"""NumPy port of torch.nn.MultiheadAttention, for the CPU scoring image without torch.

mha_forward(sd, query, key, value, num_heads, key_padding_mask=None) -> (out, weights)
    sd     dict of arrays with the names of the torch state dict: in_proj_weight (3E, E),
           in_proj_bias (3E,), out_proj.weight (E, E), out_proj.bias (E,)
    query  (N, L, E);  key, value (N, S, E)           (batch first)
    key_padding_mask   (N, S) bool, True = padding, ignored (as in torch); at least one
           False per sample
    out    (N, L, E);  weights (N, L, S) averaged over the heads
Evaluation only: no dropout.
"""
import numpy as np


def _linear(x, w, b):
    return x @ w.T + b


def _softmax_last(z):
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=-1, keepdims=True)
    return z


def mha_forward(sd, query, key, value, num_heads, key_padding_mask=None):
    E = query.shape[-1]
    d = E // num_heads
    w_q, w_k, w_v = np.split(sd["in_proj_weight"], 3, axis=0)
    b_q, b_k, b_v = np.split(sd["in_proj_bias"], 3)

    def heads(t):
        n, length, _ = t.shape
        return t.reshape(n, length, num_heads, d).swapaxes(1, 2)

    q = heads(_linear(query, w_q, b_q))
    k = heads(_linear(key, w_k, b_k))
    v = heads(_linear(value, w_v, b_v))
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(d)
    if key_padding_mask is not None:
        scores = np.where(key_padding_mask[:, None, None, :], -np.inf, scores)
    weights = _softmax_last(scores)
    ctx = np.matmul(weights, v).swapaxes(1, 2).reshape(query.shape[0], -1, E)
    return _linear(ctx, sd["out_proj.weight"], sd["out_proj.bias"]), weights.mean(axis=1)
