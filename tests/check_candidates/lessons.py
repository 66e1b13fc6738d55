"""The functions of six tutorials, as their descriptions tell them; EXPECTED names their mistakes."""

import math

import numpy as np
import torch
import torch.nn as nn


class SingleQuery:
    """Basic single-query attention: one query from the current token, keys and values from the context."""

    def __init__(self, d_model):
        rng = np.random.default_rng(0)
        self.W_q, self.W_k, self.W_v = (rng.normal(size=(d_model, d_model)) for _ in range(3))
        self.b_q, self.b_k, self.b_v = (rng.normal(size=d_model) for _ in range(3))

    def forward(self, current, context):
        q = current @ self.W_q + self.b_q
        k = context @ self.W_k + self.b_q
        v = context @ self.W_v + self.b_q
        scores = q @ k.T / np.sqrt(k.shape[-1])
        weights = scores / scores.sum()
        return weights @ v


def self_attention(q, k, v, mask=None):
    scaled = np.matmul(q, k.T) / math.sqrt(q.shape[-1])
    if mask is not None:
        scaled = scaled + mask
    weights = np.exp(scaled).T / np.sum(np.exp(scaled), axis=-1)
    return np.matmul(weights.T, v), weights.T


def causal_self_attention(q, k, v):
    n = q.shape[0]
    mask = np.tril(np.ones((n, n)))
    mask[mask == 0] = -np.infty
    mask[mask == 1] = 0
    scaled = np.matmul(q, k.T) / math.sqrt(q.shape[-1]) + mask
    weights = np.exp(scaled) / np.sum(np.exp(scaled), axis=-1, keepdims=True)
    return np.matmul(weights, v)


class SelfAttention(nn.Module):
    def __init__(self, d_in, d_k):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(d_in, d_k), nn.Linear(d_in, d_k), nn.Linear(d_in, d_k)

    def forward(self, x):
        keys, queries, values = self.key(x), self.query(x), self.value(x)
        weights = torch.softmax(queries @ keys.T / self.d_out**0.5, dim=-1)
        return weights @ values


class _Working(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out), nn.Linear(d_in, d_out)

    def forward(self, x):
        keys, queries, values = self.key(x), self.query(x), self.value(x)
        return torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1) @ values


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, num_heads):
        super().__init__()
        self.heads = [_Working(d_in, d_in // num_heads) for _ in range(num_heads)]

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


random = np.random.RandomState(42)
encoder_states, decoder_state = random.randn(5, 16), random.randn(1, 16)
layer_1, layer_2 = random.randn(32, 10), random.randn(10, 1)


def softmax(x, axis=0):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def additive_attention(encoder_states, dec_state):
    repeated = np.repeat(decoder_state, encoder_states.shape[0], axis=0)
    inputs = np.concatenate((encoder_states, repeated), axis=1)
    scores = np.matmul(np.tanh(np.matmul(inputs, layer_1)), layer_2)
    weights = softmax(scores)
    return np.sum(weights * encoder_states, axis=0)


q = np.array([[1.0, 0, 0], [0, 1, 0]])
k = np.array([[1.0, 2, 3], [4, 5, 6]])


def dot_product_attention(query, key, value, mask, scale=True):
    """mask: an additive mask, 0 where attention is allowed and -1e9 where it is not."""
    assert query.shape[-1] == key.shape[-1] == value.shape[-1]
    depth = query.shape[-1] if scale else 1
    dots = np.matmul(q, np.swapaxes(k, -1, -2)) / np.sqrt(depth)
    dots = np.where(mask, dots, np.full_like(dots, -1e9))
    logsumexp = np.log(np.sum(np.exp(dots - dots.max()), axis=-1, keepdims=True))
    del logsumexp
    return np.matmul(dots, value)


def encoder_decoder(query, key, value):
    """query (B, J, K), key and value (B, I, K); one context for every decoder step"""
    keys = np.ascontiguousarray(np.transpose(key, (0, 2, 1)))
    scores = np.matmul(query, keys) / np.sqrt(query.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.matmul(weights, value), weights


EXPECTED = {
    "SingleQuery": "no_exp_norm shared_projection",
    "self_attention": "no_max k_transposed_wrong",
    "causal_self_attention": "no_max k_transposed_wrong removed_name",
    "SelfAttention": "raises",
    "MultiHeadAttention": "python_list k_transposed_wrong",
    "additive_attention": "global_read",
    "dot_product_attention": "softmax_missing mask_float_as_bool global_read",
    "encoder_decoder": "",
}
