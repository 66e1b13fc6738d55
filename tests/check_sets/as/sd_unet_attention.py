"""Attention processors of a latent diffusion UNet."""
from typing import Any, Dict, Optional, Protocol

import torch
import torch.nn.functional as F
from torch import nn


class Processor(Protocol):
    def __call__(self, attn: "CrossAttention", hidden_states, encoder_hidden_states=None): ...


class PlainProcessor:
    """Works on heads folded into the batch."""

    def __call__(self, attn, hidden_states, encoder_hidden_states=None):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query = attn.head_to_batch_dim(attn.to_q(hidden_states))
        key = attn.head_to_batch_dim(attn.to_k(context))
        value = attn.head_to_batch_dim(attn.to_v(context))
        probs = attn.get_attention_scores(query, key)
        return attn.to_out(attn.batch_to_head_dim(torch.bmm(probs, value)))


class SlicedProcessor:
    """The same in slices along the folded batch, for small cards."""

    def __init__(self, slice_size: int):
        self.slice_size = slice_size

    def __call__(self, attn, hidden_states, encoder_hidden_states=None):
        context = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q, k, v = (attn.head_to_batch_dim(t) for t in (attn.to_q(hidden_states), attn.to_k(context), attn.to_v(context)))
        out = [attn.get_attention_scores(a, b) @ c for a, b, c in zip(*(t.split(self.slice_size) for t in (q, k, v)))]
        return attn.to_out(attn.batch_to_head_dim(torch.cat(out)))


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=40, processor: Optional[Processor] = None):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)
        self.processor = processor or PlainProcessor()

    def head_to_batch_dim(self, tensor):
        batch_size, seq_len, dim = tensor.shape
        tensor = tensor.reshape(batch_size, seq_len, self.heads, dim // self.heads)
        return tensor.permute(0, 2, 1, 3).reshape(batch_size * self.heads, seq_len, dim // self.heads)

    def batch_to_head_dim(self, tensor):
        folded, seq_len, dim = tensor.shape
        batch_size = folded // self.heads
        tensor = tensor.reshape(self.heads, batch_size, seq_len, dim)
        return tensor.permute(1, 2, 0, 3).reshape(batch_size, seq_len, dim * self.heads)

    def get_attention_scores(self, query, key):
        scores = torch.baddbmm(
            torch.empty(query.shape[0], query.shape[1], key.shape[1], dtype=query.dtype, device=query.device),
            query, key.transpose(-1, -2), beta=0, alpha=self.scale,
        )
        return scores.float().softmax(dim=-1).to(query.dtype)

    def forward(self, hidden_states, encoder_hidden_states=None):
        return self.processor(self, hidden_states, encoder_hidden_states)


class GEGLU(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.proj, self.out = nn.Linear(dim, dim * mult * 2), nn.Linear(dim * mult, dim)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(x * F.gelu(gate))


class SpatialTransformer(nn.Module):
    """[B, C, H, W] feature map conditioned on text [B, 77, context_dim]."""

    def __init__(self, channels, attn_kwargs: Dict[str, Any], context_dim):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.ln = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = CrossAttention(channels, **attn_kwargs)
        self.attn2 = CrossAttention(channels, context_dim, **attn_kwargs)
        self.ff = GEGLU(channels)

    def forward(self, x, context):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.attn1(self.ln[0](y))
        y = y + self.attn2(self.ln[1](y), context)
        y = y + self.ff(self.ln[2](y))
        return x + y.transpose(1, 2).reshape(b, c, h, w)
