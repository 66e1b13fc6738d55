"""Parts of attention as libraries write them, some of them wrong, under names that say little."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


# llama (HF)
def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def hf_llama(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


# meta llama
def reshape_for_broadcast(freqs_cis, x):
    ndim = x.ndim
    shape = [d if i == 1 or i == ndim - 1 else 1 for i, d in enumerate(x.shape)]
    return freqs_cis.view(*shape)


def meta_llama(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = reshape_for_broadcast(freqs_cis, xq_)
    xq_out = torch.view_as_real(xq_ * freqs_cis).flatten(3)
    xk_out = torch.view_as_real(xk_ * freqs_cis).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end)
    freqs = torch.outer(t, freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


class NeoxRotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, x, seq_len):
        t = torch.arange(seq_len, dtype=self.inv_freq.dtype)
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos()[None, None], emb.sin()[None, None]


def phi_partial(x, cos_sin_len=0):
    """Rotary embedding of the first half of each head (B, H, T, D), as in Phi."""
    r = x.shape[-1] // 2
    a, rest = x[..., :r], x[..., r:]
    inv = 10000.0 ** (-torch.arange(0, r, 2, dtype=x.dtype) / r)
    f = torch.outer(torch.arange(x.shape[-2], dtype=x.dtype), inv)
    e = torch.cat([f, f], -1)
    return torch.cat([a * e.cos() + rotate_half(a) * e.sin(), rest], -1)


def gptj_rotary(t, pos):
    """GPT-J: rotate every two, t (B, T, H, D), pos (T,)"""
    d = t.shape[-1]
    w = 1.0 / (10000 ** (torch.arange(0, d, 2) / d))
    s = torch.einsum("i,j->ij", pos.to(w.dtype), w)
    sin, cos = (
        torch.sin(s).repeat_interleave(2, -1)[None, :, None],
        torch.cos(s).repeat_interleave(2, -1)[None, :, None],
    )
    x1, x2 = t[..., ::2], t[..., 1::2]
    return t * cos + torch.stack((-x2, x1), -1).flatten(-2) * sin


def neox_bad(t, pos):
    """rotary, t (B, T, H, D), pos (T,)"""
    d = t.shape[-1]
    w = 1.0 / (10000 ** (torch.arange(0, d, 2) / d))
    s = torch.einsum("i,j->ij", pos.to(w.dtype), w)
    sin, cos = torch.cat([torch.sin(s)] * 2, -1)[None, :, None], torch.cat([torch.cos(s)] * 2, -1)[None, :, None]
    x1, x2 = t[..., ::2], t[..., 1::2]
    return t * cos + torch.stack((-x2, x1), -1).flatten(-2) * sin


# bloom
def build_alibi_tensor(attention_mask, num_heads):
    batch_size, seq_length = attention_mask.shape
    closest_power_of_2 = 2 ** math.floor(math.log2(num_heads))
    base = torch.tensor(2 ** (-(2 ** -(math.log2(closest_power_of_2) - 3))))
    powers = torch.arange(1, 1 + closest_power_of_2, dtype=torch.int32)
    slopes = torch.pow(base, powers)
    if closest_power_of_2 != num_heads:
        extra_base = torch.tensor(2 ** (-(2 ** -(math.log2(2 * closest_power_of_2) - 3))))
        num_remaining_heads = min(closest_power_of_2, num_heads - closest_power_of_2)
        extra_powers = torch.arange(1, 1 + 2 * num_remaining_heads, 2, dtype=torch.int32)
        slopes = torch.cat([slopes, torch.pow(extra_base, extra_powers)], dim=0)
    arange_tensor = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    alibi = slopes[..., None] * arange_tensor
    return alibi.reshape(batch_size * num_heads, 1, seq_length)


# mpt
def gen_slopes(n_heads, alibi_bias_max=8):
    _n_heads = 2 ** math.ceil(math.log2(n_heads))
    m = torch.arange(1, _n_heads + 1, dtype=torch.float32)
    m = m.mul(alibi_bias_max / _n_heads)
    slopes = 1.0 / torch.pow(2, m)
    if _n_heads != n_heads:
        slopes = torch.concat([slopes[1::2], slopes[::2]])[:n_heads]
    return slopes.view(1, n_heads, 1, 1)


def mpt_bias(n_heads, seq_len, full=False, alibi_bias_max=8):
    alibi_bias = torch.arange(1 - seq_len, 1, dtype=torch.int32).view(1, 1, 1, seq_len)
    if full:
        alibi_bias = alibi_bias - torch.arange(1 - seq_len, 1, dtype=torch.int32).view(1, 1, seq_len, 1)
        alibi_bias = alibi_bias.abs().mul(-1)
    return alibi_bias * gen_slopes(n_heads, alibi_bias_max)


def mpt_flipped(n, length):
    """ALiBi for every head"""
    return torch.arange(0, length).flip(0).view(1, 1, 1, length) * gen_slopes(n)


# fairseq
def fairseq_table(num_embeddings, embedding_dim):
    half_dim = embedding_dim // 2
    emb = math.log(10000) / (half_dim - 1)
    emb = torch.exp(torch.arange(half_dim, dtype=torch.float) * -emb)
    emb = torch.arange(num_embeddings, dtype=torch.float).unsqueeze(1) * emb.unsqueeze(0)
    return torch.cat([torch.sin(emb), torch.cos(emb)], dim=1).view(num_embeddings, -1)


# tensor2tensor
def get_timing_signal_1d(length, channels, min_timescale=1.0, max_timescale=1.0e4, start_index=0):
    position = np.arange(length) + start_index
    num_timescales = channels // 2
    inc = np.log(float(max_timescale) / float(min_timescale)) / max(num_timescales - 1, 1)
    inv = min_timescale * np.exp(np.arange(num_timescales) * -inc)
    scaled = position[:, None] * inv[None]
    return np.concatenate([np.sin(scaled), np.cos(scaled)], axis=1).reshape(1, length, channels)


# ddpm
def timestep_embedding(timesteps, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half)
    args = timesteps[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


# flax
def sinusoidal_init(max_len, d):
    pe = np.zeros((max_len, d))
    position = np.arange(0, max_len)[:, np.newaxis]
    scale_factor = -np.log(10000.0 / 1.0) / (d // 2 - 1)
    div_term = np.exp(np.arange(0, d // 2) * scale_factor)
    pe[:, : d // 2] = np.sin(position * div_term)
    pe[:, d // 2 : 2 * (d // 2)] = np.cos(position * div_term)
    return pe[np.newaxis]


# t5
class T5Bias(nn.Module):
    def __init__(self, n_head, bidirectional=True, num_buckets=32, max_distance=128):
        super().__init__()
        self.bidirectional, self.num_buckets, self.max_distance = bidirectional, num_buckets, max_distance
        self.relative_attention_bias = nn.Embedding(num_buckets, n_head)

    def forward(self, qlen, klen):
        rp = torch.arange(klen)[None] - torch.arange(qlen)[:, None]
        b = t5_bucket(rp, self.bidirectional, self.num_buckets, self.max_distance)
        return self.relative_attention_bias(b).permute([2, 0, 1]).unsqueeze(0)


def t5_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    relative_buckets = 0
    if bidirectional:
        num_buckets //= 2
        relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
        relative_position = torch.abs(relative_position)
    else:
        relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    is_small = relative_position < max_exact
    large = max_exact + (
        torch.log(relative_position.float() / max_exact)
        / math.log(max_distance / max_exact)
        * (num_buckets - max_exact)
    ).to(torch.long)
    large = torch.min(large, torch.full_like(large, num_buckets - 1))
    relative_buckets += torch.where(is_small, relative_position, large)
    return relative_buckets


# swin
class SwinBias(nn.Module):
    """Relative position bias of a window (ws, ws), (heads, ws * ws, ws * ws)"""

    def __init__(self, window_size, num_heads):
        super().__init__()
        ws = window_size
        self.ws = ws
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * ws - 1) * (2 * ws - 1), num_heads))
        coords = torch.stack(torch.meshgrid([torch.arange(ws), torch.arange(ws)], indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += ws - 1
        rel[:, :, 1] += ws - 1
        rel[:, :, 0] *= 2 * ws - 1
        self.register_buffer("index", rel.sum(-1))

    def forward(self):
        n = self.ws**2
        return self.relative_position_bias_table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)


# timm qkv
def timm_qkv(x, num_heads):
    B, N, C = x.shape
    return x.reshape(B, N, 3, num_heads, C // 3 // num_heads).permute(2, 0, 3, 1, 4).unbind(0)


# x-transformers
class ScaledSinusoidal(nn.Module):
    def __init__(self, dim, theta=10000):
        super().__init__()
        half_dim = dim // 2
        freq_seq = torch.arange(half_dim).float() / half_dim
        self.register_buffer("inv_freq", theta**-freq_seq)

    def forward(self, x):
        pos = torch.arange(x.shape[1])
        emb = torch.einsum("i, j -> i j", pos.to(self.inv_freq), self.inv_freq)
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class LearnedPos(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(n, width))

    def forward(self, z):
        return z + self.w[: z.shape[1]]


class BertEmb(nn.Module):
    def __init__(self, vocab_size, hidden, max_len=64):
        super().__init__()
        self.word = nn.Embedding(vocab_size, hidden)
        self.pos = nn.Embedding(max_len, hidden)

    def forward(self, ids):
        return self.word(ids) + self.pos(torch.arange(ids.shape[1]))


def flash_merge(out, lse, block_out, block_lse):
    """ring attention: out (B, T, H, D), lse (B, T, H, 1), block_lse (B, H, T)"""
    block_lse = block_lse.transpose(-2, -1).unsqueeze(-1)
    out = out - torch.sigmoid(block_lse - lse) * (out - block_out)
    return out, lse - F.logsigmoid(lse - block_lse)


def hf_extended(attention_mask):
    m = attention_mask[:, None, None, :].to(torch.float32)
    return (1.0 - m) * torch.finfo(torch.float32).min


def d2l_masked(X, valid_lens):
    if valid_lens is None:
        return F.softmax(X, dim=-1)
    shape = X.shape
    valid_lens = torch.repeat_interleave(valid_lens, shape[1]) if valid_lens.dim() == 1 else valid_lens.reshape(-1)
    X = X.reshape(-1, shape[-1])
    m = torch.arange(X.size(1))[None] < valid_lens[:, None]
    X = X.masked_fill(~m, -1e6)
    return F.softmax(X.reshape(shape), dim=-1)


def sliding(t, s, w):
    """True = may attend"""
    i = torch.arange(t)[:, None] + s - t
    j = torch.arange(s)[None]
    return (j <= i) & (j > i - w)


def bias_from_distance(heads, tq, tk):
    """linear biases, symmetric"""
    m = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1))
    d = torch.arange(tk)[None] - (torch.arange(tq)[:, None] + tk - tq)
    return -m[:, None, None] * d.abs()


def combine_heads(x):
    return x.permute(0, 2, 1, 3).contiguous().flatten(2)


def split_qk(x, n):
    return x.view(x.shape[0], x.shape[1], n, -1).permute(0, 2, 3, 1)


def spin(z, start_pos):
    """z (B, H, T, D)"""
    w = 1e4 ** -(torch.arange(0, z.shape[-1], 2) / z.shape[-1])
    e = torch.outer(torch.arange(z.shape[-2], dtype=z.dtype), w).repeat(1, 2)
    return z * e.cos() + rotate_half(z) * e.sin()


def three_of_each(x, num_heads):
    B, N, C = x.shape
    return x.reshape(B, N, num_heads, 3, C // 3 // num_heads).permute(3, 0, 2, 1, 4).unbind(0)


def sum_of_two(a, la, b, lb):
    m = np.maximum(la, lb)
    u, w = np.exp2(la - m), np.exp2(lb - m)
    return (u[..., None] * a + w[..., None] * b) / (u + w)[..., None]


def boltzmann(e):
    p = np.exp(e)
    return p / p.sum(-1, keepdims=True)


def gibbs(e, b):
    """b: numbers that are added, 0 or very negative"""
    e = e + b
    e = np.exp(e - e.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def triangle(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)


def triangle_and_more(n):
    return torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=2)


class Table(nn.Module):
    def __init__(self, n, width):
        super().__init__()
        self.e = nn.Embedding(n, width)

    def forward(self, z):
        return self.e(z) * self.e.weight.shape[1] ** -0.5


def distances(h, t, s):
    m = 2.0 ** (-8 / h * np.arange(1, h + 1)) if not h & (h - 1) else np.array(halves(h))
    return -m[:, None, None] * np.abs(np.arange(s) - np.arange(t)[:, None])


def halves(h):
    n = 1 << (h.bit_length() - 1)
    return [2 ** (-8 * i / n) for i in range(1, n + 1)] + [2 ** (-4 * i / n) for i in range(1, 2 * (h - n), 2)]


EXPECTED = {
    "hf_llama": "",
    "meta_llama": "",
    "precompute_freqs_cis": "",
    "NeoxRotary": "",
    "phi_partial": "",
    "gptj_rotary": "",
    "neox_bad": "rope_layout",
    "spin": "rope_offset",
    "build_alibi_tensor": "",
    "gen_slopes": "",
    "mpt_bias": "",
    "mpt_flipped": "alibi_sign",
    "bias_from_distance": "alibi_slopes",
    "distances": "alibi_offset",
    "fairseq_table": "",
    "get_timing_signal_1d": "",
    "timestep_embedding": "",
    "sinusoidal_init": "",
    "ScaledSinusoidal": "",
    "LearnedPos": "",
    "BertEmb": "",
    "Table": "embed_scale",
    "T5Bias": "",
    "t5_bucket": "",
    "SwinBias": "",
    "timm_qkv": "",
    "three_of_each": "qkv_order",
    "combine_heads": "",
    "split_qk": "",
    "flash_merge": "",
    "sum_of_two": "lse_base2",
    "hf_extended": "",
    "sliding": "",
    "triangle": "",
    "triangle_and_more": "causal_off_by_one",
    "d2l_masked": "",
    "boltzmann": "no_max",
    "gibbs": "",
}
