"""Decoder block with ALiBi, in the style of MPT / BLOOM.

Slopes are those of the ALiBi release: with n heads, n a power of two, 2^(-8/n), 2^(-16/n), ...;
for other n, the slopes of the closest lower power of two m, followed by every second slope
of the series for 2m until there are n.
Attention dropout is for training only.
"""
import math
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F


def gen_slopes(n_heads, alibi_bias_max=8, device=None):
    m = torch.arange(1, n_heads + 1, dtype=torch.float32, device=device)
    slopes = 1.0 / torch.pow(2.0, m * alibi_bias_max / n_heads)
    return slopes.view(1, n_heads, 1, 1)


def build_alibi_bias(n_heads, seq_len, alibi_bias_max=8, device=None, dtype=None):
    """[1, n_heads, 1, seq_len]: 0 at the last key, more and more negative to the left."""
    bias = torch.arange(1 - seq_len, 1, dtype=torch.float32, device=device).view(1, 1, 1, seq_len)
    return (bias * gen_slopes(n_heads, alibi_bias_max, device=device)).to(dtype)


def scaled_multihead_dot_product_attention(query, key, value, n_heads, attn_bias=None, key_padding_mask=None,
                                           is_causal=False, dropout_p=0.0, training=False):
    """query/key/value [b, s, h*d]; key_padding_mask [b, s], True for tokens to keep."""
    b, s_q, _ = query.shape
    s_k = key.shape[1]
    q = query.view(b, s_q, n_heads, -1).permute(0, 2, 1, 3)
    k = key.view(b, s_k, n_heads, -1).permute(0, 2, 3, 1)
    v = value.view(b, s_k, n_heads, -1).permute(0, 2, 1, 3)
    attn_weight = q.matmul(k) / math.sqrt(q.shape[-1])
    if attn_bias is not None:
        attn_weight = attn_weight + attn_bias[..., -s_k:]
    min_val = torch.finfo(q.dtype).min
    if key_padding_mask is not None:
        if attn_bias is None:
            warnings.warn("padding without a bias: positions are counted from the left edge")
        attn_weight = attn_weight.masked_fill(~key_padding_mask.view(b, 1, 1, s_k), min_val)
    if is_causal and s_q > 1:
        causal = torch.ones(s_q, s_k, dtype=torch.bool, device=q.device).tril(s_k - s_q)
        attn_weight = attn_weight.masked_fill(~causal, min_val)
    attn_weight = torch.softmax(attn_weight, dim=-1)
    if dropout_p:
        attn_weight = F.dropout(attn_weight, p=dropout_p, training=True)
    out = attn_weight.matmul(v)
    return out.permute(0, 2, 1, 3).reshape(b, s_q, -1)


ATTN_IMPLS = {"torch": scaled_multihead_dot_product_attention}


class MPTAttention(nn.Module):
    def __init__(self, d_model, n_heads, attn_impl="torch", attn_pdrop=0.1, max_seq_len=256):
        super().__init__()
        self.n_heads, self.attn_pdrop = n_heads, attn_pdrop
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.attn_fn = ATTN_IMPLS[attn_impl]
        self.register_buffer("bias", build_alibi_bias(n_heads, max_seq_len, dtype=torch.float32), persistent=False)

    def forward(self, x, key_padding_mask=None, past=None):
        q, k, v = self.Wqkv(x).chunk(3, dim=2)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        y = self.attn_fn(q, k, v, self.n_heads, attn_bias=self.bias, key_padding_mask=key_padding_mask,
                         is_causal=True, dropout_p=self.attn_pdrop, training=self.training)
        return self.out_proj(y), (k, v)


class MPTBlock(nn.Module):
    def __init__(self, d_model, n_heads, expansion=4, **attn_config):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = MPTAttention(d_model, n_heads, **attn_config)
        self.ffn = nn.Sequential(nn.Linear(d_model, expansion * d_model), nn.GELU(), nn.Linear(expansion * d_model, d_model))

    def forward(self, x, key_padding_mask=None, past=None):
        a, past = self.attn(self.norm_1(x), key_padding_mask, past)
        x = x + a
        return x + self.ffn(self.norm_2(x)), past
