"""tiny-bloom: the attention block of BLOOM, cut down for a reading seminar.

Standard scaled dot-product attention with causal mask; instead of position
embeddings ALiBi penalises distance, linearly, with a slope 2^(-8h/H) for head
h = 1..H (H a power of two here).  The packed projection is [H, 3, d] as in the
original checkpoint.
"""
import math

import torch
import torch.nn as nn


def build_alibi(n_head, length, device=None):
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, n_head + 1, device=device) / n_head)
    i = torch.arange(length, device=device)
    dist = i.view(-1, 1) - i.view(1, -1)
    return slopes.view(n_head, 1, 1) * dist


class BloomAttention(nn.Module):
    def __init__(self, hidden_size=48, n_head=4):
        super().__init__()
        self.n_head = n_head
        self.head_dim = hidden_size // n_head
        self.norm_factor = 1.0 / math.sqrt(self.n_head)
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x):
        b, t, _ = x.shape
        fused = self.query_key_value(x).view(b, t, self.n_head, 3, self.head_dim)
        q, k, v = (fused[..., i, :].transpose(1, 2) for i in range(3))

        scores = torch.matmul(q, k.transpose(-1, -2)) * self.norm_factor
        scores = scores + build_alibi(self.n_head, t, x.device)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
        probs = torch.softmax(scores, dim=-1)
        ctx = torch.matmul(probs, v).transpose(1, 2).reshape(b, t, -1)
        return self.dense(ctx)


class BloomBlock(nn.Module):
    def __init__(self, hidden_size=48, n_head=4):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.self_attention = BloomAttention(hidden_size, n_head)
        self.post_attention_layernorm = nn.LayerNorm(hidden_size)
        self.mlp = nn.Sequential(
            nn.Linear(hidden_size, 4 * hidden_size),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * hidden_size, hidden_size),
        )

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))
