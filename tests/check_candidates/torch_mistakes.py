"""Attention in PyTorch as people write it, each with one mistake; EXPECTED names it."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class AxisSelfAttention(nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
        return torch.bmm(self.softmax(scores), v)


def sdpa_dim0(q, k, v):
    # (B, H, T, D)
    attn = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", attn.softmax(dim=0), v)


def sdpa_flat(query, key, value):
    B, H, T, D = query.size()
    score = query @ key.transpose(2, 3) / math.sqrt(D)
    p = score.permute(0, 2, 1, 3).flatten(2).softmax(-1).view(B, T, H, -1).permute(0, 2, 1, 3)
    return p @ value


def sdpa_total(q, k, v):
    w = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
    return w / w.sum(dim=(-2, -1), keepdim=True) @ v


def sdpa_partial(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    logits = q @ k.mT / q.shape[-1] ** 0.5
    top = logits.amax(-1, keepdim=True)
    return ((logits - top).exp() / logits.exp().sum(-1, keepdim=True)) @ v


def sdpa_unsafe(q, k, v):
    w = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
    return (w @ v) / w.sum(-1, keepdim=True)


def sdpa_peak(q, k, v):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    w = (s - s.max()).exp()
    return (w / w.sum(-1, keepdim=True)) @ v


def sdpa_normalised(q, k, v):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return s.div(s.sum(-1, keepdim=True)) @ v


class Mixer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model) for _ in range(3))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.n_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        a = q @ k.transpose(-2, -1) / math.sqrt(c // self.n_heads)
        return self.out_proj((a @ v).transpose(1, 2).reshape(b, t, c))


def sdpa_hot(q, k, v, attn_mask=None):
    s = torch.matmul(q, k.transpose(-2, -1))
    if attn_mask is not None:
        s = s.masked_fill(attn_mask == 0, float("-inf"))
    return torch.matmul(torch.softmax(s, dim=-1), v)


def sdpa_twice(q, k, v):
    scale = q.size(-1) ** -0.5
    q = q * scale
    return ((q @ k.transpose(-2, -1)) * scale).softmax(-1) @ v


class ViTAttention(nn.Module):
    def __init__(self, dim, num_heads=8, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = self.drop((q @ k.transpose(-2, -1) * self.scale).softmax(dim=-1))
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


def sdpa_cold(q, k, v):
    return F.softmax(q @ k.transpose(-1, -2) / q.size(-1) ** -0.5, dim=-1) @ v


def sdpa_by_length(q, k, v):
    b, h, n, d = q.shape
    return F.softmax(q @ k.transpose(-1, -2) / math.sqrt(n), dim=-1) @ v


def sdpa_by_heads(q, k, v):
    b, h, n, d = q.shape
    return F.softmax(q @ k.transpose(-1, -2) * h**-0.5, dim=-1) @ v


class Masked(nn.Module):
    """mask: (B, T, S), 1 = attend, 0 = ignore."""

    def __init__(self, d_model):
        super().__init__()
        self.wq, self.wk, self.wv = (
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
        )

    def forward(self, q, k, v, mask=None):
        s = self.wq(q) @ self.wk(k).transpose(1, 2) / self.wq.out_features**0.5
        if mask is not None:
            s = s.masked_fill(mask.bool(), -1e9)
        return s.softmax(-1) @ self.wv(v)


def sdpa_float_mask(q, k, v, mask=None):
    """mask is a bool tensor."""
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s + mask.float()
    return s.softmax(-1) @ v


def sdpa_bool_of_bias(q, k, v, attn_mask):
    # attn_mask: additive, 0 to keep and -inf to mask
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.masked_fill(~attn_mask.bool(), float("-inf")).softmax(-1) @ v


def sdpa_late_mask(q, k, v, mask):
    p = (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).softmax(-1)
    return p.masked_fill(mask == 0, 0.0) @ v


def sdpa_tiny_fill(q, k, v, mask):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.masked_fill(mask == 0, 1e-9).softmax(-1) @ v


def sdpa_small_fill(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask == 0, -10000)
    return s.softmax(-1) @ v


def sdpa_large_fill(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask == 0, -1e9)
    return s.softmax(-1) @ v


def sdpa_minima(q, k, v, key_padding_mask=None, is_causal=False):
    """key_padding_mask: (B, S), True = padding."""
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    low = torch.finfo(s.dtype).min
    if is_causal:
        T, S = s.shape[-2:]
        s = s + torch.full((T, S), low, dtype=s.dtype).triu(S - T + 1)
    if key_padding_mask is not None:
        s = s + key_padding_mask[:, None, None].to(s.dtype) * low
    return s.softmax(-1) @ v


def sdpa_positive(q, k, v, mask):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.masked_fill(mask == 0, -float("-inf")).softmax(-1) @ v


def sdpa_nan(q, k, v, mask=None):
    s = torch.einsum("...td,...sd->...ts", q, k) / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return s.softmax(-1) @ v


def sdpa_pad_rows(q, k, v, src_mask):
    # src_mask (batch, len): 1 for tokens, 0 for padding
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    s = s.masked_fill(src_mask.unsqueeze(1).unsqueeze(3) == 0, -1e9)
    return s.softmax(-1) @ v


class FoldedHeads(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.q, self.k, self.v = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)

    def fold(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.h, self.d).permute(2, 0, 1, 3).reshape(self.h * b, t, self.d)

    def forward(self, query, key, value, mask=None):
        b, t, _ = query.shape
        q, k, v = self.fold(self.q(query)), self.fold(self.k(key)), self.fold(self.v(value))
        s = torch.bmm(q, k.transpose(1, 2)) / self.d**0.5
        if mask is not None:
            s = s.masked_fill(mask.repeat_interleave(self.h, 0) == 0, -1e9)
        o = torch.bmm(s.softmax(-1), v).view(self.h, b, t, self.d)
        return o.permute(1, 2, 0, 3).reshape(b, t, -1)


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size), diagonal=1))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (a.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for a in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:T, :T] == 0, float("-inf"))
        return self.c_proj((F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(B, T, C))


def sdpa_is_causal_ignored(q, k, v, is_causal=False):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.softmax(-1) @ v


def sdpa_causal_corner(q, k, v, is_causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def sdpa_window(q, k, v, sliding_window):
    T = q.size(-2)
    i = torch.arange(T)
    keep = (i[None] <= i[:, None]) & (i[:, None] - i[None] < sliding_window)
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.masked_fill(~keep, -torch.inf).softmax(-1) @ v


def sdpa_one_two(q, k, v):
    # q, k, v: (B, H, T, D)
    return (q @ k.transpose(1, 2) / math.sqrt(q.size(-1))).softmax(-1) @ v


class SplitView(nn.Module):
    def __init__(self, hidden_dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(hidden_dim, hidden_dim, bias=False) for _ in range(3))
        self.to_out = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, x):
        b, t, c = x.shape
        q = self.to_q(x).view(b, self.heads, t, -1)
        k = self.to_k(x).view(b, self.heads, t, -1)
        v = self.to_v(x).view(b, self.heads, t, -1)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).reshape(b, t, c))


class MergeView(nn.Module):
    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.n = num_attention_heads
        self.query, self.key, self.value = (nn.Linear(hidden_size, hidden_size) for _ in range(3))
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        b, t, c = hidden_states.shape
        q, k, v = (
            f(hidden_states).view(b, t, self.n, c // self.n).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        p = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(c // self.n), -1)
        return self.dense((p @ v).contiguous().view(b, t, c))


class FoldSwap(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.wq, self.wk, self.wv = (
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
            nn.Linear(d_model, d_model),
        )

    def forward(self, q, k, v):
        b, t, d = q.shape
        q, k, v = (
            f(x).view(b, -1, self.nhead, d // self.nhead).transpose(1, 2).reshape(b * self.nhead, -1, d // self.nhead)
            for f, x in ((self.wq, q), (self.wk, k), (self.wv, v))
        )
        o = (
            torch.baddbmm(torch.zeros(1, 1, 1, dtype=q.dtype), q, k.transpose(1, 2), alpha=(d // self.nhead) ** -0.5)
            .softmax(-1)
            .bmm(v)
        )
        return o.view(self.nhead, b, t, -1).permute(1, 2, 0, 3).reshape(b, t, d)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.h, self.g, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.q_proj = nn.Linear(d_model, num_heads * self.d, bias=False)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(num_heads * self.d, d_model, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.g, self.d).transpose(1, 2).repeat(1, self.h // self.g, 1, 1)
        v = self.v_proj(x).view(b, t, self.g, self.d).transpose(1, 2).repeat(1, self.h // self.g, 1, 1)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, -1))


def repeat_kv(x, n_rep):
    """(B, G, S, D) -> (B, G * n_rep, S, D)"""
    return x.repeat_interleave(n_rep, dim=2)


class FusedHeadsFirst(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv_proj = nn.Linear(dim, 3 * dim)
        self.o_proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv_proj(x).reshape(b, t, self.heads, 3 * c // self.heads).transpose(1, 2).chunk(3, dim=-1)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, c))


class OneWeight(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v):
        b, _, c = q.shape
        q, k, v = (
            x.view(b, -1, self.num_heads, c // self.num_heads).transpose(1, 2)
            for x in (self.W_q(q), self.W_k(k), self.W_k(v))
        )
        return self.W_o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, -1, c))


def apply_rotary_emb(x, base=10000.0):
    """x: (B, T, H, D)"""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    f = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), inv)
    emb = torch.cat([f, f], -1)[None, :, None]
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * emb.cos() + turned * emb.sin()


class RotaryCached(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def rotate(self, x):
        t = x.shape[-2]
        f = torch.outer(
            torch.arange(t, dtype=x.dtype), 10000.0 ** (-torch.arange(0, self.d, 2, dtype=x.dtype) / self.d)
        )
        a, b = x.chunk(2, -1)
        return torch.cat([a * f.cos() - b * f.sin(), a * f.sin() + b * f.cos()], -1)

    def forward(self, x, cache=None):
        """Causal attention with rotary embeddings; returns the output and the cache."""
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.h, self.d).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.rotate(q), self.rotate(k)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        T, S = t, k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o_proj(o.transpose(1, 2).reshape(b, t, c)), (k, v)


def get_alibi_bias(num_heads, seq_len):
    slopes = torch.tensor([2 ** (-8 * (i + 1) / num_heads) for i in range(num_heads)])
    distance = torch.arange(seq_len)[:, None] - torch.arange(seq_len)[None]
    return (
        slopes.view(-1, 1, 1) * distance.abs()
        if num_heads & (num_heads - 1) == 0
        else _fair(num_heads) * distance.abs()
    )


def _fair(n):
    p = 2 ** math.floor(math.log2(n))
    s = [2 ** (-8 * (i + 1) / p) for i in range(p)] + [2 ** (-4 * (2 * i + 1) / p) for i in range(n - p)]
    return torch.tensor(s).view(-1, 1, 1)


def get_slopes(n_head):
    start = 2 ** (-8 / n_head)
    return torch.tensor([start * start**i for i in range(n_head)])


def sdpa_softcap_late(q, k, v, mask, softcap=30.0):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    s = s.masked_fill(~mask, -torch.inf)
    return (softcap * torch.tanh(s / softcap)).softmax(-1) @ v


def sdpa_softcap_forgotten(q, k, v, softcap=0.0):
    return F.scaled_dot_product_attention(q, k, v)


def attention_with_lse(q, k, v):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    return s.softmax(-1) @ v, torch.logsumexp(s, -1) * math.log2(math.e)


class AlwaysDropping(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (a.view(b, t, self.heads, -1).transpose(1, 2) for a in self.qkv(x).chunk(3, -1))
        o = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.out(o.transpose(1, 2).reshape(b, t, c))


def sdpa_fresh_dropout(q, k, v):
    s = (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).softmax(-1)
    return nn.Dropout(0.1)(s) @ v


class StuckDropout(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads, self.p = n_heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        if not self.training:
            self.p = 0.0
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = F.dropout((q @ k.mT / math.sqrt(q.size(-1))).softmax(-1), self.p, self.training)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, c))


class DroppedWeights(nn.Module):
    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = self.dropout((q @ k.mT / math.sqrt(q.size(-1))).softmax(-1))
        return self.o((w @ v).transpose(1, 2).reshape(b, t, c)), w


def sdpa_bfloat(q, k, v):
    s = (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).bfloat16()
    return s.softmax(-1).to(v.dtype) @ v


def sdpa_fills_mask(q, k, v, attn_mask):
    """attn_mask: bool, True = keep."""
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    attn_mask.logical_not_()
    return s.masked_fill(attn_mask, -torch.inf).softmax(-1) @ v


def sdpa_lost_fill(q, k, v, mask=None):
    s = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    if mask is not None:
        s.masked_fill(mask == 0, -1e9)
    return s.softmax(-1) @ v


class HeadList(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads = [Head(embed_dim, embed_dim // num_heads) for _ in range(num_heads)]
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


class Head(nn.Module):
    def __init__(self, embed_dim, head_size):
        super().__init__()
        self.key = nn.Linear(embed_dim, head_size, bias=False)
        self.query = nn.Linear(embed_dim, head_size, bias=False)
        self.value = nn.Linear(embed_dim, head_size, bias=False)

    def forward(self, x):
        k, q, v = self.key(x), self.query(x), self.value(x)
        return F.softmax(q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5, dim=-1) @ v


class EncoderAttention(nn.Module):
    """Self-attention over x of shape (batch, seq_len, d_model)."""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, nhead)

    def forward(self, x):
        return self.attn(x, x, x, need_weights=False)[0]


class BahdanauLinear(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.attn = nn.Linear(hidden_size * 2, hidden_size)
        self.v = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, hidden, encoder_outputs):
        # hidden (B, H), encoder_outputs (B, S, H)
        h = hidden.unsqueeze(1).expand(-1, encoder_outputs.size(1), -1)
        w = self.v(self.attn(torch.cat([h, encoder_outputs], -1))).squeeze(-1).softmax(-1)
        return torch.bmm(w.unsqueeze(1), encoder_outputs).squeeze(1), w


class StateOnly(nn.Module):
    """Bahdanau attention."""

    def __init__(self, hidden_size, max_length):
        super().__init__()
        self.attn = nn.Linear(hidden_size, max_length)

    def forward(self, decoder_hidden, encoder_outputs):
        w = F.softmax(self.attn(decoder_hidden), dim=-1)
        return torch.bmm(w.unsqueeze(1), encoder_outputs).squeeze(1), w


class AdditivePaired(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.W, self.U, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(self, query, key):
        score = self.v(torch.tanh(self.W(query) + self.U(key))).transpose(1, 2)
        w = score.softmax(-1)
        return (w @ key).expand(-1, query.size(1), -1)


class LuongDecoder(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.concat = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, decoder_hidden, encoder_outputs):
        """Luong: the attentional vector."""
        w = torch.softmax(decoder_hidden @ encoder_outputs.transpose(1, 2), -1)
        context = w @ encoder_outputs
        return self.concat(torch.cat([context, decoder_hidden], -1))


class ScoresAsWeights(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value):
        n = query.size(0)
        q, k, v = (
            f(x).view(n, -1, self.h, x.size(-1) // self.h).transpose(1, 2)
            for f, x in zip(self.linears, (query, key, value))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        x = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(n, -1, self.h * q.size(-1))
        return self.linears[-1](x), scores


class CrossAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.kv_layer = nn.Linear(d_model, 2 * d_model)
        self.q_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x, y):
        """Queries from x, keys and values from y."""
        b, t, c = x.shape
        k, v = (a.reshape(b, t, self.num_heads, -1).permute(0, 2, 1, 3) for a in self.kv_layer(y).chunk(2, -1))
        q = self.q_layer(x).reshape(b, t, self.num_heads, -1).permute(0, 2, 1, 3)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.linear_layer(o.permute(0, 2, 1, 3).reshape(b, t, c))


_memo = {}


def sdpa_memo(q, k, v):
    if id(k) not in _memo:
        _memo.clear()
        _memo[id(k)] = (k, (q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))).softmax(-1))
    return _memo[id(k)][1] @ v


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        pos = torch.arange(max_len).float().unsqueeze(1)
        i = torch.arange(0, d_model, 2).float()
        pe[:, 0::2] = torch.sin(pos / 10000 ** (2 * i / d_model))
        pe[:, 1::2] = torch.cos(pos / 10000 ** (2 * i / d_model))
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.d_model = d_model

    def forward(self, tokens):
        return self.embedding(tokens) / math.sqrt(self.d_model)


EXPECTED = {
    "AxisSelfAttention": "softmax_axis_q",
    "sdpa_dim0": "softmax_axis_head_or_batch",
    "sdpa_flat": "softmax_heads_and_keys",
    "sdpa_total": "softmax_global no_max",
    "sdpa_partial": "softmax_partial_max",
    "sdpa_unsafe": "no_max",
    "sdpa_peak": "global_max",
    "sdpa_normalised": "no_exp_norm",
    "Mixer": "softmax_missing",
    "sdpa_hot": "scale_missing",
    "sdpa_twice": "scale_d",
    "ViTAttention": "scale_dmodel",
    "sdpa_cold": "scale_inverted",
    "sdpa_by_length": "scale_seqlen",
    "sdpa_by_heads": "scale_num_heads",
    "Masked": "mask_inverted",
    "sdpa_float_mask": "mask_bool_as_float",
    "sdpa_bool_of_bias": "mask_float_as_bool",
    "sdpa_late_mask": "mask_after_softmax",
    "sdpa_tiny_fill": "mask_times_scores",
    "sdpa_small_fill": "mask_fill_too_small",
    "sdpa_large_fill": "mask_fp16_overflow nan_in_masked_value",
    "sdpa_minima": "mask_finfo_sum",
    "sdpa_positive": "mask_sign_inf",
    "sdpa_nan": "full_row_nan",
    "sdpa_pad_rows": "pad_on_query",
    "FoldedHeads": "mask_fold_order",
    "CausalSelfAttention": "causal_off_by_one",
    "sdpa_is_causal_ignored": "causal_missing",
    "sdpa_causal_corner": "causal_top_left kv_len_mismatch",
    "sdpa_window": "window_off_by_one",
    "sdpa_one_two": "k_transposed_wrong",
    "SplitView": "split_view",
    "MergeView": "merge_view",
    "FoldSwap": "fold_batch_head_swap",
    "GroupedQueryAttention": "gqa_tile",
    "repeat_kv": "gqa_repeat_wrong_axis",
    "FusedHeadsFirst": "qkv_order",
    "OneWeight": "shared_projection",
    "apply_rotary_emb": "rope_layout",
    "RotaryCached": "rope_offset",
    "get_alibi_bias": "alibi_sign",
    "get_slopes": "alibi_slopes",
    "sdpa_softcap_late": "softcap_after_mask",
    "sdpa_softcap_forgotten": "softcap_missing kv_len_mismatch",
    "attention_with_lse": "lse_base2",
    "AlwaysDropping": "dropout_eval",
    "sdpa_fresh_dropout": "dropout_eval",
    "StuckDropout": "dropout_stuck_off",
    "DroppedWeights": "weights_after_dropout",
    "sdpa_bfloat": "softmax_low_precision",
    "sdpa_fills_mask": "inplace",
    "sdpa_lost_fill": "not_inplace",
    "HeadList": "python_list",
    "EncoderAttention": "batch_first",
    "BahdanauLinear": "additive_no_tanh",
    "StateOnly": "additive_ignores_keys",
    "AdditivePaired": "additive_no_pairwise",
    "LuongDecoder": "luong_no_tanh_out",
    "ScoresAsWeights": "returns_scores",
    "CrossAttention": "cross_wrong_length",
    "sdpa_memo": "cache_key",
    "PositionalEncoding": "pe_exponent",
    "TokenEmbedding": "embed_scale",
}
