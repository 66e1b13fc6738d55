# CS 5xx - Homework 3, part 2: transformer encoder layer in pure NumPy
import numpy as np


def layer_norm(x, gamma, beta, eps=1e-6):
    mu = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return gamma * (x - mu) / np.sqrt(var + eps) + beta


def relu(x):
    return np.maximum(0, x)


def init_params(d_model=16, d_ff=32, num_heads=2, seed=0):
    rng = np.random.default_rng(seed)

    def mat(a, b):
        return rng.normal(0, 1.0 / np.sqrt(a), size=(a, b))

    params = {
        "W_q": mat(d_model, d_model), "W_k": mat(d_model, d_model),
        "W_v": mat(d_model, d_model), "W_o": mat(d_model, d_model),
        "W_1": mat(d_model, d_ff), "b_1": np.zeros(d_ff),
        "W_2": mat(d_ff, d_model), "b_2": np.zeros(d_model),
        "g1": np.ones(d_model), "be1": np.zeros(d_model),
        "g2": np.ones(d_model), "be2": np.zeros(d_model),
        "num_heads": num_heads,
    }
    return params


def softmax(x):
    """turn the scores into one probability distribution per query"""
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def scaled_dot_product_attention(Q, K, V):
    """
    Q, K, V: (seq_len, d_k)
    1. dot products of the queries with the keys
    2. divide by sqrt(d_k) so the softmax does not saturate
    3. softmax
    4. weighted sum of the values
    """
    d_k = Q.shape[-1]
    scores = (Q @ K.T) / (d_k ** -0.5)
    weights = softmax(scores)
    return weights @ V, weights


def multi_head_attention(x, params):
    """x: (seq_len, d_model). Returns output (seq_len, d_model) and list of weights."""
    Q, K, V = x @ params["W_q"], x @ params["W_k"], x @ params["W_v"]
    h = params["num_heads"]
    d_head = Q.shape[-1] // h
    outs, all_w = [], []
    for i in range(h):
        sl = slice(i * d_head, (i + 1) * d_head)
        o, w = scaled_dot_product_attention(Q[:, sl], K[:, sl], V[:, sl])
        outs.append(o)
        all_w.append(w)
    return np.concatenate(outs, axis=-1) @ params["W_o"], all_w


def encoder_layer(x, params):
    attn, _ = multi_head_attention(x, params)
    x = layer_norm(x + attn, params["g1"], params["be1"])
    ff = relu(x @ params["W_1"] + params["b_1"]) @ params["W_2"] + params["b_2"]
    return layer_norm(x + ff, params["g2"], params["be2"])


if __name__ == "__main__":
    p = init_params()
    x = np.random.default_rng(1).normal(size=(5, 16))
    print(encoder_layer(x, p).shape)
