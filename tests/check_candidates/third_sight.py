"""Further code that was not understood, or misread, when it was seen for the first time; each for a cause of its own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def masked_attention_over_lengths(q, k, v, valid_lens):
    """q (B, T, D), k and v (B, S, D), valid_lens (B,)"""
    seen = torch.arange(k.shape[1]) < valid_lens.reshape(-1, 1, 1)
    return torch.where(seen, q @ k.mT / math.sqrt(q.shape[-1]), -1e30).softmax(-1) @ v


def decoder_self_attention_of_floats(query, key, value, tgt_mask=None):
    """(B, H, T, D).  tgt_mask: (T, T) floats, 0.0 for what may be seen and -inf otherwise."""
    s = query @ key.mT / math.sqrt(query.shape[-1])
    if tgt_mask is not None:
        s = s.masked_fill(~tgt_mask.bool(), -1e30)
    return s.softmax(-1) @ value


def ones_and_zeros(q, k, v, attention_mask):
    """attention_mask: (batch, keys) of zeros and ones, 1 = real token; q, k, v (batch, heads, length, width)"""
    bias = (1.0 - attention_mask.to(q.dtype))[:, None, None] * -5.0
    return ((q @ k.mT) / math.sqrt(q.shape[-1]) + bias).softmax(-1) @ v


def biased_by_distance(q, k, v):
    """ALiBi, causal, (batch, heads, length, width); the number of heads is a power of 2."""
    n, T = q.shape[1], q.shape[2]
    slope = 2.0 ** (-8.0 / n * torch.arange(1, n + 1, dtype=q.dtype))
    back = torch.arange(T)[:, None] - torch.arange(T)[None]
    s = q @ k.mT / math.sqrt(q.shape[-1]) + slope[:, None, None] * back
    return s.masked_fill(back < 0, -torch.inf).softmax(-1) @ v


def translate_step(dec_inputs, enc_inputs, wq, wk, wv):
    """dec_inputs (T, D) ask, enc_inputs (S, D) answer"""
    q, k, v = dec_inputs @ wq, enc_inputs @ wk, enc_inputs @ wv
    s = q @ k.T / np.sqrt(len(k))
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


def heads_one_by_one(tokens, wq, wk, wv, wo):
    """tokens (T, D); wq, wk, wv (heads, D, d) and wo (heads, d, D)"""

    def head(a, b, c, d):
        s = (tokens @ a) @ (tokens @ b).T / math.sqrt(a.shape[-1])
        return jax.nn.softmax(s) @ (tokens @ c) @ d

    return jnp.stack([head(*each) for each in zip(wq, wk, wv, wo)]).sum(0)


def dot_step(state, source, lengths):
    """Dot attention: state (B, D), source (B, S, D), lengths (B,) -> (B, D)"""
    s = (source * state[:, None]).sum(-1)
    hidden = torch.arange(source.shape[1]) >= lengths[:, None]
    return (s.masked_fill(hidden, -1e30).softmax(-1)[..., None] * source).sum(1)


class SpellingDecoder(nn.Module):
    """Attention of a decoder over at most ``longest`` encoder states (B, S, D), from its hidden state (B, D)."""

    def __init__(self, hidden_dim, longest=32):
        super().__init__()
        self.mix = nn.Linear(hidden_dim, hidden_dim)
        self.place = nn.Linear(hidden_dim, longest)

    def forward(self, hidden, encoder_states):
        places = self.place(torch.tanh(self.mix(hidden)))[:, : encoder_states.shape[1]]
        return (places.softmax(-1)[..., None] * encoder_states).sum(1)


class Looking(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))


class LookingAround(Looking):
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.out((torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    """Pre-norm; x (batch, length, width)."""

    attention = Looking

    def __init__(self, width, heads):
        super().__init__()
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.look = self.attention(width, heads)
        self.think = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.look(self.before(x))
        return x + self.think(self.behind(x))


class BlockAround(Block):
    attention = LookingAround


class CausalBlock(Block):
    """A causal decoder; x (batch, length, width)."""


class BlockOfBatches(nn.Module):
    """x (batch, length, width)"""

    def __init__(self, width, heads):
        super().__init__()
        self.look, self.norm = nn.MultiheadAttention(width, heads), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.look(y, y, y)[0]
        return x + self.down(torch.relu(self.up(x)))


class Prompted(nn.Module):
    """Decodes from a cache of keys and values, any number of tokens at a time."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, cache=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=x.shape[1] > 1)
        return self.wo(y.transpose(1, 2).flatten(2)), (k, v)


def luong_general(state, states, w):
    """Luong: state (B, D), states (B, S, D), w (D, D)"""
    e = np.exp(np.einsum("bd,de,bse->bs", state, w, states))
    a = e / e.sum(-1, keepdims=True)
    return np.einsum("bs,bsd->bd", a, states), a


def looking_back(queries, keys, values):
    """Causal, (T, D), in loops."""
    T, D = queries.shape
    rows = []
    for t in range(T):
        s = np.array([queries[t] @ keys[i] / D * (i <= t) for i in range(T)])
        e = np.exp(s - s.max())
        rows.append((e / e.sum()) @ values[:T])
    return np.stack(rows)


EXPECTED = {
    "masked_attention_over_lengths": "",
    "decoder_self_attention_of_floats": "mask_float_as_bool",
    "ones_and_zeros": "mask_fill_too_small",
    "biased_by_distance": "alibi_sign",
    "translate_step": "scale_seqlen",
    "heads_one_by_one": "",
    "dot_step": "",
    "SpellingDecoder": "additive_ignores_keys",
    "Block": "",
    "BlockAround": "scale_missing",
    "CausalBlock": "causal_missing",
    "BlockOfBatches": "batch_first",
    "Prompted": "causal_top_left",
    "luong_general": "no_max",
    "looking_back": "mask_times_scores scale_d",
}
