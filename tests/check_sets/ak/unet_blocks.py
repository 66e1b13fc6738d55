"""Attention blocks of the latent UNet: feature maps look at themselves and at the prompt."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


class CrossAttention(nn.Module):
    """`encoder_attention_mask` [B, Lk]: True for prompt tokens that count."""

    def __init__(self, query_dim: int, cross_attention_dim: Optional[int] = None, heads: int = 4,
                 dim_head: int = 16, dropout: float = 0.0, upcast_softmax: bool = True):
        super().__init__()
        inner_dim = dim_head * heads
        cross_attention_dim = cross_attention_dim or query_dim
        self.scale = dim_head ** -0.5
        self.heads = heads
        self.upcast_softmax = upcast_softmax
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_k = nn.Linear(cross_attention_dim, inner_dim, bias=False)
        self.to_v = nn.Linear(cross_attention_dim, inner_dim, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(inner_dim, query_dim), nn.Dropout(dropout)])

    def head_to_batch_dim(self, t):
        b, n, c = t.shape
        t = t.reshape(b, n, self.heads, c // self.heads).permute(0, 2, 1, 3)
        return t.reshape(b * self.heads, n, c // self.heads)

    def batch_to_head_dim(self, t):
        bh, n, d = t.shape
        t = t.reshape(bh // self.heads, self.heads, n, d).permute(0, 2, 1, 3)
        return t.reshape(bh // self.heads, n, d * self.heads)

    def prepare_attention_mask(self, mask, dtype):
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        bias = bias.masked_fill(~mask.bool(), torch.finfo(dtype).min / 2)
        return bias.unsqueeze(1).repeat_interleave(self.heads, dim=0)      # [B * heads, 1, Lk]

    def get_attention_scores(self, query, key, attention_mask=None):
        dtype = query.dtype
        if attention_mask is None:
            base = torch.empty(query.shape[0], query.shape[1], key.shape[1],
                               dtype=dtype, device=query.device)
            beta = 0
        else:
            base, beta = attention_mask.expand(-1, query.shape[1], -1), 1
        scores = torch.baddbmm(base, query, key.transpose(-1, -2), beta=beta, alpha=self.scale)
        if self.upcast_softmax:
            scores = scores.float() if dtype in (torch.float16, torch.bfloat16) else scores
        return scores.softmax(dim=-1).to(dtype)

    def forward(self, hidden_states, encoder_hidden_states=None, encoder_attention_mask=None):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query = self.head_to_batch_dim(self.to_q(hidden_states))
        key = self.head_to_batch_dim(self.to_k(context))
        value = self.head_to_batch_dim(self.to_v(context))
        bias = None
        if encoder_attention_mask is not None:
            bias = self.prepare_attention_mask(encoder_attention_mask, query.dtype)
        probs = self.get_attention_scores(query, key, bias)
        out = self.batch_to_head_dim(torch.bmm(probs, value))
        for layer in self.to_out:
            out = layer(out)
        return out


class BasicTransformerBlock(nn.Module):
    def __init__(self, dim, heads, dim_head, context_dim):
        super().__init__()
        self.attn1 = CrossAttention(dim, None, heads, dim_head)
        self.attn2 = CrossAttention(dim, context_dim, heads, dim_head)
        self.ff_in = nn.Linear(dim, dim * 8)
        self.ff_out = nn.Linear(dim * 4, dim)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, context=None, context_mask=None):
        x = self.attn1(self.norm1(x)) + x
        x = self.attn2(self.norm2(x), context, context_mask) + x
        a, gate = self.ff_in(self.norm3(x)).chunk(2, dim=-1)
        return self.ff_out(a * F.gelu(gate)) + x


class SpatialTransformer(nn.Module):
    def __init__(self, in_channels, heads, dim_head, context_dim, depth=1):
        super().__init__()
        inner = heads * dim_head
        self.norm = nn.GroupNorm(8, in_channels, eps=1e-6)
        self.proj_in = nn.Conv2d(in_channels, inner, 1)
        self.blocks = nn.ModuleList(
            BasicTransformerBlock(inner, heads, dim_head, context_dim) for _ in range(depth))
        self.proj_out = nn.Conv2d(inner, in_channels, 1)
        nn.init.zeros_(self.proj_out.weight)
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x, context=None, context_mask=None):
        b, _, h, w = x.shape
        y = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        for blk in self.blocks:
            y = blk(y, context, context_mask)
        y = y.transpose(1, 2).reshape(b, -1, h, w)
        return self.proj_out(y) + x
