"""Further code that was not understood, or misread, when it was seen for the first time; each for a cause of its own."""

import math

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
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ (tokens @ c) @ d

    return np.stack([head(*each) for each in zip(wq, wk, wv, wo)]).sum(0)


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


class WholeBlock(nn.Module):
    """Everything in one class; x (batch, length, width)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.to_qkv, self.back = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))

    def look(self, x):
        B, T, C = x.shape
        q, k, v = self.to_qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT * self.scale).softmax(-1)
        return self.back((a @ v).transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.look(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class WholeBlockWrong(WholeBlock):
    def look(self, x):
        B, T, C = x.shape
        q, k, v = self.to_qkv(x).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT * self.scale).softmax(-2)
        return self.back((a @ v).transpose(1, 2).reshape(B, T, C))


class SameFourTimes(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.layers = nn.ModuleList([nn.Linear(d_model, d_model)] * 4)

    def forward(self, query, key, value):
        B, _, C = query.shape
        q, k, v = (
            f(x).view(B, -1, self.n_heads, C // self.n_heads).transpose(1, 2)
            for f, x in zip(self.layers, (query, key, value))
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return self.layers[-1](y.transpose(1, 2).flatten(2))


def neighbours(q, k, v, adjacency):
    """Nodes of a graph, (batch, nodes, width); adjacency (batch, nodes, nodes), 1 where there is an edge."""
    a = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
    return (a * adjacency) @ v


def mistral(q, k, v, window):
    """(B, H, T, D), causal: each position sees ``window`` of them, itself and the last ``window - 1`` ones."""
    T = q.shape[-2]
    gap = torch.arange(T)[:, None] - torch.arange(T)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s.masked_fill((gap < 0) | (gap > window), -torch.inf).softmax(-1) @ v


def capped(q, k, v, mask, attention_logits_softcap: float = 20.0):
    """(B, H, T, D); mask (B, 1, T, S), True = may attend"""
    s = torch.where(mask, q @ k.mT / math.sqrt(q.shape[-1]), -1e30)
    s = attention_logits_softcap * torch.tanh(s / attention_logits_softcap)
    return s.softmax(-1) @ v


def alibi_distances(n_heads, length):
    """Bias (n_heads, length, length) of ALiBi for a power of two of heads."""
    slope = 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)
    return slope[:, None, None] * -(np.arange(length)[:, None] - np.arange(length))


def prefix_mask(padding_mask, target_length):
    """Additive (B, 1, T, S) from (B, S) of ones for tokens and zeros for padding, for a decoder."""
    S = padding_mask.shape[1]
    seen = torch.ones(target_length, S, dtype=torch.bool).tril(S - target_length)
    seen = seen & padding_mask[:, None, None].bool()
    return torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)


def one_word(x, X, Wq, Wk, Wv):
    """x (D,) asks the words X (n, D)"""
    s = (X @ Wk) @ (x @ Wq) / np.sqrt(Wq.shape[1])
    return (s / s.sum()) @ (X @ Wv)


def without_libraries(query, keys, values):
    """query: d numbers, keys: n lists of d, values: n lists of m"""
    scores = [sum(float(a) * float(b) for a, b in zip(query, key)) / len(query) ** 0.5 for key in keys]
    top = max(scores)
    weights = [math.exp(s - top) for s in scores]
    return [sum(w * float(row[j]) for w, row in zip(weights, values)) / sum(weights) for j in range(len(values[0]))]


class LuongInTwo(nn.Module):
    """Luong: h (batch, hidden), states (batch, length, hidden); tanh(W [c; h]) as two matrices."""

    def __init__(self, hidden_size):
        super().__init__()
        self.score = nn.Linear(hidden_size, hidden_size, bias=False)
        self.from_context = nn.Linear(hidden_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, h, states):
        a = torch.einsum("bd,bsd->bs", h, self.score(states)).softmax(-1)
        c = torch.einsum("bs,bsd->bd", a, states)
        return torch.tanh(self.from_context(c) + self.from_state(h)), a


def local(q, k, v, window):
    """Causal, (B, H, T, D): each token sees ``window`` tokens, of which it is itself the last."""
    T = q.shape[-2]
    gap = torch.arange(T)[:, None] - torch.arange(T)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s.masked_fill((gap < 0) | (gap > window), -torch.inf).softmax(-1) @ v


class OverChannels(nn.Module):
    """Channels first: x (N, heads * 3 * C, T), for each head its q, k and v -> (N, heads * C, T)"""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        N, width, T = qkv.shape
        q, k, v = qkv.view(N, self.heads, 3, -1, T).unbind(2)
        a = (q.mT @ k / math.sqrt(q.shape[2])).softmax(-1)
        return (v @ a.mT).reshape(N, width // 3, T)


def one_key_head(q, k, v):
    """Multi-query: q (B, H, T, D), k and v (B, 1, S, D)"""
    s = torch.einsum("bhtd,bsd->bhts", q, k[:, 0]) / math.sqrt(q.shape[-1])
    return torch.einsum("bhts,bsd->bhtd", s.softmax(-1), v.squeeze(1))


class LowerHalf(nn.Module):
    """One head; x (batch, length, width)."""

    def __init__(self, width):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        a = (self.query(x) @ self.key(x).mT / math.sqrt(x.shape[-1])).softmax(-1)
        return torch.tril(a) @ self.value(x)


EXPECTED = {
    "LowerHalf": "mask_after_softmax",
    "one_key_head": "",
    "local": "window_off_by_one",
    "OverChannels": "",
    "WholeBlock": "",
    "WholeBlockWrong": "softmax_axis_q",
    "SameFourTimes": "shared_projection",
    "neighbours": "mask_after_softmax",
    "mistral": "window_off_by_one",
    "capped": "softcap_after_mask",
    "alibi_distances": "",
    "prefix_mask": "",
    "one_word": "no_exp_norm",
    "without_libraries": "",
    "LuongInTwo": "",
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
