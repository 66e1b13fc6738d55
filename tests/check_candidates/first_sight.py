"""What was not understood, or misread, at first sight; written without a look at the variants."""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import einsum


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=axis, keepdims=True)


def masked_attention(q, k, v, mask=None):
    """Dot-product attention with a mask.

    Parameters
    ----------
    q, k, v : ndarray (B, L, d)
    mask : bool ndarray (B, Lq, Lk), optional
        True at the positions which take part in the attention,
        False at the positions to be ignored.
    """
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores[mask] = -1e9
    w = _softmax_rows(scores)
    return w @ v


class AttentionWithDropout:
    """Multi-head self-attention with dropout on the attention weights.

    Dropout is used in training only: call layer.eval() before prediction.
    x: (B, L, d_model)
    """

    def __init__(self, d_model=16, num_heads=4, p=0.1, seed=0):
        self.rng = np.random.default_rng(seed)
        self.p, self.nh, self.dh = p, num_heads, d_model // num_heads
        self.training = True
        self.Wq, self.Wk, self.Wv, self.Wo = self.rng.normal(0, 0.3, (4, d_model, d_model))

    def train(self):
        self.training = True
        return self

    def eval(self):
        self.training = False
        return self

    def dropout(self, a):
        keep = self.rng.random(a.shape) >= self.p
        return a * keep / (1.0 - self.p)

    def forward(self, x):
        B, L, D = x.shape
        heads = lambda t: t.reshape(B, L, self.nh, self.dh).transpose(0, 2, 1, 3)
        q, k, v = heads(x @ self.Wq), heads(x @ self.Wk), heads(x @ self.Wv)
        attn = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(self.dh))
        attn = self.dropout(attn)
        out = (attn @ v).reshape(B, L, D)
        return out @ self.Wo


def column_self_attention(I, Wq, Wk, Wv):
    """Self-attention with tokens as columns: I is (d, N), W are (d_out, d), result (d_out, N)."""
    Q, K, V = Wq @ I, Wk @ I, Wv @ I
    A = K.T @ Q / np.sqrt(Q.shape[0])
    A = softmax(A, axis=0)
    return V @ A


def loop_attention_ragged(inputs, lengths, Wq, Wk, Wv):
    """Every example alone, cut to its own length, in base 2; padded rows of the output are zero.

    inputs (B, L, D), lengths (B,)
    """
    B, L, _ = inputs.shape
    out = np.zeros((B, L, Wv.shape[1]))
    for b in range(B):
        n = int(lengths[b])
        if n == 0:
            continue
        x = inputs[b, :n]
        q, k, v = x @ Wq, x @ Wk, x @ Wv
        for i in range(n):
            s = k @ q[i] * (math.log2(math.e) / math.sqrt(q.shape[1]))
            p = np.exp2(s - s.max())
            out[b, i] = (p / p.sum()) @ v
    return out


def _softmax_rows(z):
    z = z - z.max(axis=-1, keepdims=True)
    ez = np.exp(z)
    return ez / ez.sum(axis=-1, keepdims=True)


@dataclass
class BertConfig:
    hidden_size: int = 32
    num_attention_heads: int = 4
    attention_probs_dropout_prob: float = 0.1


class BertSelfAttention(nn.Module):
    """BERT self-attention. attention_mask: (batch, seq), 1 for tokens to attend to, 0 for padding."""

    def __init__(self, config: BertConfig = BertConfig()):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        x = x.view(x.size()[:-1] + (self.num_attention_heads, self.attention_head_size))
        return x.permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask=None):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask[:, None, None, :]
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs_dropped = self.dropout(attention_probs)
        context_layer = torch.matmul(attention_probs_dropped, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        context_layer = context_layer.view(context_layer.size()[:-2] + (self.all_head_size,))
        return context_layer, attention_probs


class FastEncoderAttention(nn.Module):
    """Encoder attention. The whole model is run with `model.half()` at training and at
    serving, so x may be float16 or float32.

    mask: (B, T), nonzero = real token
    """

    def __init__(self, hidden_dim, n_heads, dropout=0.1):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.n_heads = n_heads
        self.head_dim = hidden_dim // n_heads
        self.fc_qkv = nn.Linear(hidden_dim, 3 * hidden_dim)
        self.fc_o = nn.Linear(hidden_dim, hidden_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        B, T, _ = x.shape
        Q, K, V = self.fc_qkv(x).chunk(3, dim=-1)
        Q = Q.view(B, T, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        K = K.view(B, T, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        V = V.view(B, T, self.n_heads, self.head_dim).permute(0, 2, 1, 3)
        energy = torch.matmul(Q, K.permute(0, 1, 3, 2)) * self.head_dim**-0.5
        if mask is not None:
            energy = energy.masked_fill(mask[:, None, None, :] == 0, -1e9)
        att = torch.softmax(energy, dim=-1, dtype=torch.float32).to(x.dtype)
        out = torch.matmul(self.dropout(att), V)
        out = out.permute(0, 2, 1, 3).contiguous().view(B, T, self.hidden_dim)
        return self.fc_o(out)


def _to_additive(keep: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (1.0 - keep.to(dtype)) * torch.finfo(dtype).min


class PackedSelfAttention(nn.Module):
    """Self-attention over packed documents.

    attention_mask: (B, L) 1 = token, 0 = padding
    block_mask: (B, L, L) 1 = same document, 0 = other document (padding rows are all 0)
    Samples of nothing but padding occur in the last batch of an epoch.
    """

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.o_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, attention_mask=None, block_mask=None):
        B, L, D = x.shape
        q = self.q_proj(x).view(B, L, self.n_heads, self.d_head).transpose(1, 2)
        k = self.k_proj(x).view(B, L, self.n_heads, self.d_head).transpose(1, 2)
        v = self.v_proj(x).view(B, L, self.n_heads, self.d_head).transpose(1, 2)
        mask = torch.zeros(B, 1, L, L, dtype=x.dtype, device=x.device)
        if attention_mask is not None:
            mask = mask + _to_additive(attention_mask, x.dtype)[:, None, None, :]
        if block_mask is not None:
            mask = mask + _to_additive(block_mask, x.dtype)[:, None]
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.d_head) + mask
        probs = scores.float().softmax(-1).to(x.dtype)
        return self.o_proj((probs @ v).transpose(1, 2).reshape(B, L, D))


class SlidingWindowAttention(nn.Module):
    """Causal local attention.

    window_size: number of tokens a token can see, itself included (as `sliding_window`
        in HuggingFace); window_size=1 means that each token only sees itself.
    """

    def __init__(self, dim, n_heads, window_size):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.window_size = window_size
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.n_heads, self.head_dim).transpose(1, 2) for z in self.wqkv(x).chunk(3, dim=-1))
        pos = torch.arange(t, device=x.device)
        dist = pos[:, None] - pos[None, :]
        allowed = (dist >= 0) & (dist <= self.window_size)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


class NeoXSelfAttention(nn.Module):
    """Bidirectional self-attention for checkpoints in the GPT-NeoX / BLOOM format.

    The rows of query_key_value.weight are ordered per head:
    [num_heads, 3, head_dim] with q, k, v of head 0, then q, k, v of head 1, and so on.
    """

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.head_size = hidden_size // num_attention_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        b, s, h = hidden_states.shape
        qkv = self.query_key_value(hidden_states)
        qkv = qkv.view(b, s, 3, self.num_attention_heads, self.head_size)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(q, k, v)
        return self.dense(context.transpose(1, 2).reshape(b, s, h))


class AttentionHead(nn.Module):
    def __init__(self, embed_dim, head_dim):
        super().__init__()
        self.q = nn.Linear(embed_dim, head_dim)
        self.k = nn.Linear(embed_dim, head_dim)
        self.v = nn.Linear(embed_dim, head_dim)

    def forward(self, hidden_state):
        q, k, v = self.q(hidden_state), self.k(hidden_state), self.v(hidden_state)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
        return torch.bmm(F.softmax(scores, dim=-1), v)


class MultiHeadFromHeads(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        head_dim = embed_dim // num_heads
        self.heads = nn.ModuleList([AttentionHead(embed_dim, head_dim)] * num_heads)
        self.output_linear = nn.Linear(embed_dim, embed_dim)

    def forward(self, hidden_state):
        x = torch.cat([h(hidden_state) for h in self.heads], dim=-1)
        return self.output_linear(x)


class Head(nn.Module):
    """one head of causal self-attention"""

    def __init__(self, n_embd, head_size, block_size, dropout):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        B, T, C = x.shape
        k, q, v = self.key(x), self.query(x), self.value(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = self.dropout(F.softmax(wei, dim=-1))
        return wei @ v


class MultiHeadGPT(nn.Module):
    """multiple heads of causal self-attention in parallel"""

    def __init__(self, n_embd, num_heads, block_size=64, dropout=0.0):
        super().__init__()
        head_size = n_embd // num_heads
        self.heads = [Head(n_embd, head_size, block_size, dropout) for _ in range(num_heads)]
        self.proj = nn.Linear(head_size * num_heads, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.dropout(self.proj(out))


class RobertaLikeAttention(nn.Module):
    """
    hidden_states: (batch, seq, hidden_size)
    attention_mask: float tensor (batch, seq) of ones (keep) and zeros (padding)
    """

    def __init__(self, hidden_size=32, num_attention_heads=4):
        super().__init__()
        self.num_heads = num_attention_heads
        self.head_dim = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        b, s, h = hidden_states.shape
        q = self.query(hidden_states).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.key(hidden_states).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.value(hidden_states).view(b, s, self.num_heads, self.head_dim).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        if attention_mask is not None:
            # 1 -> 0, 0 -> very negative
            extended_mask = attention_mask.to(scores.dtype)[:, None, None, :]
            extended_mask -= 1.0
            extended_mask *= -torch.finfo(scores.dtype).min
            scores = scores + extended_mask
        probs = F.softmax(scores, dim=-1)
        ctx = torch.matmul(probs, v).transpose(1, 2).reshape(b, s, h)
        return self.dense(ctx)


class WhisperStyleAttention(nn.Module):
    """Attention of x over itself, or over xa if given; key has no bias.
    mask: additive (n_ctx, n_ctx) causal mask of 0 and -inf."""

    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def forward(self, x, xa=None, mask=None):
        q = self.query(x)
        k = self.key(x if xa is None else xa)
        v = self.value(x if xa is None else xa)
        n_batch, n_ctx, n_state = q.shape
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[:n_ctx, :n_ctx]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))


class TBDMultiheadAttention(nn.Module):
    """(T, B, C) in and out, one packed in_proj_weight in the order value, key, query.

    key_padding_mask: (B, S), True = padding. Returns (output, head-averaged weights (B, T, S)).
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim))
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def _in_proj(self, t, i):
        a, b = i * self.embed_dim, (i + 1) * self.embed_dim
        t = F.linear(t, self.in_proj_weight[a:b], self.in_proj_bias[a:b])
        return t.reshape(t.size(0), t.size(1) * self.num_heads, self.head_dim).transpose(0, 1)

    def forward(self, query, key, value, key_padding_mask=None):
        T, B, C = query.shape
        S = key.size(0)
        v, k, q = self._in_proj(value, 0), self._in_proj(key, 1), self._in_proj(query, 2)
        w = torch.bmm(q * self.head_dim**-0.5, k.transpose(1, 2)).view(B, self.num_heads, T, S)
        if key_padding_mask is not None:
            pad = key_padding_mask.bool()[:, None, None, :]
            w = F.log_softmax(w.masked_fill(pad, torch.finfo(w.dtype).min), dim=-1).exp()
            w = w.masked_fill(pad, 0.0)
        else:
            w = F.log_softmax(w, dim=-1).exp()
        p = F.dropout(w, self.dropout, self.training).view(B * self.num_heads, T, S)
        o = torch.bmm(p, v).transpose(0, 1).reshape(T, B, C)
        return self.out_proj(o), w.mean(1)


def scores_to_probs(scores):
    # stable softmax
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    exps = np.exp(shifted)
    return exps / np.sum(exps)


def make_src_mask(src, src_pad_idx=0):
    """src: [batch, src_len] token ids -> mask for scores [batch, head, src_len, src_len], True = keep"""
    src_mask = (src != src_pad_idx).unsqueeze(1).unsqueeze(3)
    return src_mask.expand(-1, 1, -1, src.size(1))


def prepare_decoder_attention_mask(attention_mask, dtype=torch.float32):
    """attention_mask: (bsz, seq_len) with 1 for tokens and 0 for padding.
    Returns an additive mask of shape (bsz, 1, seq_len, seq_len)."""
    bsz, seq_len = attention_mask.shape
    min_value = torch.finfo(dtype).min

    causal = torch.full((seq_len, seq_len), min_value, dtype=dtype, device=attention_mask.device)
    causal = torch.triu(causal, diagonal=1)[None, None, :, :].expand(bsz, 1, seq_len, seq_len)

    padding = torch.zeros(bsz, 1, 1, seq_len, dtype=dtype, device=attention_mask.device)
    padding = padding.masked_fill(attention_mask[:, None, None, :] == 0, min_value)

    return causal + padding


def sliding_window_mask(seq_len, window_size):
    """Causal sliding window: every token sees `window_size` tokens, itself included.

    Returns a (seq_len, seq_len) boolean array, True = visible.
    """
    i = np.arange(seq_len)[:, None]
    j = np.arange(seq_len)[None, :]
    return (j <= i) & (i - j <= window_size)


def rope_complex(x: torch.Tensor, start_pos: int = 0, theta: float = 10000.0) -> torch.Tensor:
    """Rotary embedding on adjacent pairs, x: (batch, seq, heads, head_dim)."""
    _, T, _, D = x.shape
    freqs = theta ** (-torch.arange(0, D, 2, dtype=torch.float32, device=x.device) / D)
    t = torch.arange(start_pos, start_pos + T, dtype=torch.float32, device=x.device)
    rot = torch.polar(torch.ones(T, D // 2, device=x.device), torch.outer(t, freqs))
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], D // 2, 2))
    return torch.view_as_real(xc * rot[None, :, None, :]).flatten(-2).to(x.dtype)


class T5RelativeBias(nn.Module):
    """Bucketed relative position bias, shared by all layers. Returns (1, heads, q_len, k_len)."""

    def __init__(self, num_heads, num_buckets=32, max_distance=128, bidirectional=True):
        super().__init__()
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.bidirectional = bidirectional
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def _bucket(self, relative_position):
        n = -relative_position  # query position minus key position
        num_buckets = self.num_buckets
        ret = torch.zeros_like(n)
        if self.bidirectional:
            num_buckets //= 2
            ret = ret + (n < 0).long() * num_buckets
            n = n.abs()
        else:
            n = n.clamp(min=0)
        max_exact = num_buckets // 2
        is_small = n < max_exact
        large = (
            max_exact
            + (
                torch.log(n.float().clamp(min=1) / max_exact)
                / math.log(self.max_distance / max_exact)
                * (num_buckets - max_exact)
            ).long()
        )
        large = large.clamp(max=num_buckets - 1)
        return ret + torch.where(is_small, n, large)

    def forward(self, q_len, k_len):
        # the queries are the last q_len positions
        dev = self.relative_attention_bias.weight.device
        context = torch.arange(k_len - q_len, k_len, device=dev)[:, None]
        memory = torch.arange(k_len, device=dev)[None, :]
        bias = self.relative_attention_bias(self._bucket(memory - context))
        return bias.permute(2, 0, 1).unsqueeze(0)


def bloom_alibi(attention_mask: torch.Tensor, num_heads: int, dtype=torch.float32) -> torch.Tensor:
    """ALiBi for causal attention, (batch, num_heads, 1, seq_len).

    Only the position of the key is used: for a fixed query, slope * j and slope * (j - i)
    differ by a constant and the softmax does not see it.
    """
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    slopes = torch.pow(torch.tensor(base), torch.arange(1, 1 + closest))
    if closest != num_heads:
        extra_base = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        remaining = min(closest, num_heads - closest)
        extra = torch.pow(torch.tensor(extra_base), torch.arange(1, 1 + 2 * remaining, 2))
        slopes = torch.cat([slopes, extra])
    key_pos = (attention_mask.cumsum(dim=-1) - 1) * attention_mask
    return (slopes[None, :, None, None] * key_pos[:, None, None, :]).to(dtype)


def split_neox_qkv(mixed_qkv: torch.Tensor, num_heads: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Unpack the output of the fused `query_key_value` layer of a GPT-NeoX checkpoint.

    In these checkpoints every head has its q, k and v next to each other:
    [batch, seq_len, (num_heads * 3 * head_size)].
    Returns q, k, v of shape [batch, num_heads, seq_len, head_size].
    """
    bsz, seq_len, width = mixed_qkv.shape
    head_size = width // (3 * num_heads)
    mixed_qkv = mixed_qkv.view(bsz, seq_len, 3, num_heads, head_size)
    q, k, v = mixed_qkv.permute(2, 0, 3, 1, 4)
    return q, k, v


class RotaryDecoderAttention(nn.Module):
    """One attention layer of a decoder, with rotary positions and a key/value cache."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.d = d_model // n_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)
        self.cache = None

    def rope(self, x):
        n, d = x.shape[2], x.shape[3]
        inv = 10000.0 ** (-torch.arange(0, d, 2, device=x.device) / d)
        ang = torch.arange(n, device=x.device)[:, None] * inv[None, :]
        c, s = ang.cos(), ang.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1)

    def _heads(self, x):
        return x.view(x.shape[0], -1, self.h, self.d).transpose(1, 2)

    def _attend(self, q, k, v, mask=None):
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        o = s.softmax(-1) @ v
        return self.wo(o.transpose(1, 2).flatten(2))

    def prefill(self, x):
        q = self.rope(self._heads(self.wq(x)))
        k = self.rope(self._heads(self.wk(x)))
        v = self._heads(self.wv(x))
        self.cache = (k, v)
        T = x.shape[1]
        mask = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        return self._attend(q, k, v, mask)

    def step(self, x):
        """x: (batch, 1, d_model), the newest token."""
        q = self.rope(self._heads(self.wq(x)))
        k = self.rope(self._heads(self.wk(x)))
        v = self._heads(self.wv(x))
        k = torch.cat([self.cache[0], k], dim=2)
        v = torch.cat([self.cache[1], v], dim=2)
        self.cache = (k, v)
        return self._attend(q, k, v)


class PreallocatedKVAttention(nn.Module):
    """Causal attention over a preallocated cache; prefill may come in chunks of any length."""

    def __init__(self, dim, heads, max_batch=8, max_len=64):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)
        shape = (max_batch, heads, max_len, dim // heads)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)
        self.pos = 0

    def reset(self):
        self.pos = 0

    @torch.no_grad()
    def prefill(self, x):
        self.reset()
        return self.step(x)

    @torch.no_grad()
    def step(self, x):
        b, t, _ = x.shape
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.to_qkv(x).chunk(3, dim=-1))
        end = self.pos + t
        self.k_cache[:b, :, self.pos : end] = k
        self.v_cache[:b, :, self.pos : end] = v
        keys, vals = self.k_cache[:b, :, :end], self.v_cache[:b, :, :end]
        rows = torch.arange(self.pos, end, device=x.device)[:, None]
        cols = torch.arange(end, device=x.device)[None, :]
        out = F.scaled_dot_product_attention(q, keys, vals, attn_mask=cols <= rows)
        self.pos = end
        return self.to_out(out.transpose(1, 2).flatten(2))


class AdditiveAttention(nn.Module):
    """Additive attention: queries (B, n_q, query_size), keys (B, n_k, key_size), values (B, n_k, v)."""

    def __init__(self, query_size, key_size, num_hiddens):
        super().__init__()
        self.W_q = nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = nn.Linear(num_hiddens, 1, bias=False)

    def forward(self, queries, keys, values):
        queries, keys = self.W_q(queries), self.W_k(keys)
        features = torch.tanh(queries + keys)
        scores = self.w_v(features).squeeze(-1).unsqueeze(1)
        self.attention_weights = F.softmax(scores, dim=-1)
        return torch.bmm(self.attention_weights, values)


def split_kv_attention(q, k, v, num_splits=2):
    """Flash-decoding: attention over pieces of the cache, merged with their log-sum-exp.

    q: (L, d), k, v: (S, d)
    """
    scale = 1.0 / np.sqrt(q.shape[-1])
    log2e = np.log2(np.e)
    outs, lses = [], []
    for ks, vs in zip(np.array_split(k, num_splits), np.array_split(v, num_splits)):
        s = q @ ks.T * (scale * log2e)  # exp2 is cheaper than exp
        m = s.max(axis=-1, keepdims=True)
        p = np.exp2(s - m)
        l = p.sum(axis=-1, keepdims=True)
        outs.append(p @ vs / l)
        lses.append(m + np.log2(l))
    lse = np.stack(lses)  # (splits, L, 1)
    w = np.exp(lse - lse.max(axis=0))
    w = w / w.sum(axis=0)
    return (w * np.stack(outs)).sum(axis=0)


def contextual_vectors(vectors):
    """
    Contextual meaning of each word of a sentence.

    vectors: (n_words, dim). The attention of a word to the others comes from the cosine
    similarity of their vectors; the result is the attention-weighted sum of the word vectors.
    Returns (contextual vectors, attention weights).
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / norms
    attention = unit @ unit.T
    return attention @ vectors, attention


def repeat_kv_wrong(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """torch.repeat_interleave(x, dim=2, repeats=n_rep)"""
    bs, slen, n_kv_heads, head_dim = x.shape
    return (
        x[:, :, None, :, :]
        .expand(bs, slen, n_rep, n_kv_heads, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


def multi_head_forward_wrong(query, key, value, num_heads, in_proj_weight, out_proj_weight, attn_mask=None):
    """query: (L, N, E), key, value: (S, N, E). in_proj_weight: (3E, E)"""
    L, N, E = query.shape
    S = key.size(0)
    wq, wk, wv = in_proj_weight.chunk(3)
    d = E // num_heads
    q, k, v = query @ wq.T * d**-0.5, key @ wk.T, value @ wk.T
    q = q.reshape(L, N * num_heads, d).transpose(0, 1)
    k = k.reshape(S, N * num_heads, d).transpose(0, 1)
    v = v.reshape(S, N * num_heads, d).transpose(0, 1)
    a = torch.bmm(q, k.transpose(1, 2))
    if attn_mask is not None:
        a = a + attn_mask
    o = torch.bmm(a.softmax(-1), v).transpose(0, 1).reshape(L, N, E)
    return o @ out_proj_weight.T


def multi_query(q, k, v, mask=None):
    """q: b h n d; k, v: b n d (one head for all); mask: b n, True = real token"""
    sim = einsum("bhid,bjd->bhij", q, k) * q.shape[-1] ** -0.5
    if mask is not None:
        sim = sim.masked_fill(~mask[:, None, None, :], -torch.finfo(sim.dtype).max)
    return einsum("bhij,bjd->bhid", sim.softmax(-1), v)


def attn2_wrong(x, w, num_heads=3):
    """x (seq, dim), w: list of four (dim, dim) matrices: q, k, v, o"""
    wq, wk, wv, wo = w
    n, d = x.shape
    h = num_heads
    q, k, v = ((x @ m).reshape(n, h, d // h) for m in (wq, wk, wv))
    s = np.einsum("nhd,mhd->hnm", q, k) / np.sqrt(d / h)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.einsum("hnm,mhd->hnd", p, v).reshape(n, d) @ wo


class Block(nn.Module):
    """Pre-norm self-attention with residual, (B, T, C)."""

    def __init__(self, d_model=24, nhead=4, bias=True):
        super().__init__()
        self.ln = nn.LayerNorm(d_model)
        self.attn_in = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.attn_out = nn.Linear(d_model, d_model, bias=bias)
        self.nhead = nhead

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.attn_in(self.ln(x)).view(B, T, 3, self.nhead, C // self.nhead).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.mT / (C // self.nhead) ** 0.5, -1)
        return x + self.attn_out((a @ v).transpose(1, 2).reshape(B, T, C))


class BlockWrong(Block):
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.attn_in(self.ln(x)).view(B, T, 3, self.nhead, C // self.nhead).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.mT / (C // self.nhead) ** 0.5, 1)
        return x + self.attn_out((a @ v).transpose(1, 2).reshape(B, T, C))


def get_mask(lengths, max_len):
    """(B, max_len), True = padding"""
    return torch.arange(max_len)[None, :] >= lengths[:, None]


def make_trg_mask(trg, trg_pad_idx=0):
    """Decoder mask (B, 1, T, T), 1 = may attend"""
    T = trg.shape[1]
    pad = (trg != trg_pad_idx)[:, None, None, :]
    return pad & torch.tril(torch.ones(T, T, dtype=torch.bool))


EXPECTED = {
    "masked_attention": "mask_inverted",
    "AttentionWithDropout": "dropout_eval merge_view",
    "column_self_attention": "",
    "loop_attention_ragged": "",
    "BertSelfAttention": "mask_bool_as_float",
    "FastEncoderAttention": "mask_fp16_overflow",
    "PackedSelfAttention": "mask_finfo_sum",
    "SlidingWindowAttention": "window_off_by_one",
    "NeoXSelfAttention": "qkv_order",
    "MultiHeadFromHeads": "shared_projection",
    "MultiHeadGPT": "python_list",
    "RobertaLikeAttention": "inplace",
    "WhisperStyleAttention": "",
    "TBDMultiheadAttention": "",
    "scores_to_probs": "softmax_global",
    "make_src_mask": "pad_on_query",
    "prepare_decoder_attention_mask": "mask_finfo_sum",
    "sliding_window_mask": "window_off_by_one",
    "rope_complex": "",
    "T5RelativeBias": "",
    "bloom_alibi": "",
    "split_neox_qkv": "qkv_order",
    "RotaryDecoderAttention": "rope_offset",
    "PreallocatedKVAttention": "",
    "AdditiveAttention": "additive_no_pairwise",
    "split_kv_attention": "lse_base2",
    "contextual_vectors": "softmax_missing",
    "repeat_kv_wrong": "gqa_tile",
    "multi_head_forward_wrong": "shared_projection",
    "multi_query": "",
    "attn2_wrong": "merge_view",
    "Block": "",
    "BlockWrong": "softmax_axis_head_or_batch",
    "get_mask": "",
    "make_trg_mask": "",
}
