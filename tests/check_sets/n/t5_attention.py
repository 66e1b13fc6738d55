import math

import torch
from torch import nn


class T5Attention(nn.Module):
    """T5 self-attention of the encoder with its bucketed relative positions.  No 1/sqrt(d): it is part of the initialisation."""

    def __init__(self, d_model=16, d_kv=4, num_heads=4, num_buckets=8, max_distance=16):
        super().__init__()
        self.num_heads, self.d_kv = num_heads, d_kv
        self.num_buckets, self.max_distance = num_buckets, max_distance
        inner = num_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def bucket(self, relative_position):
        half = self.num_buckets // 2
        out = (relative_position > 0).long() * half
        distance = relative_position.abs()
        exact = half // 2
        far = exact + (
            torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact) * (half - exact)
        ).long()
        far = far.clamp(max=half - 1)
        return out + torch.where(distance < exact, distance, far)

    def compute_bias(self, n):
        pos = torch.arange(n)
        bias = self.relative_attention_bias(self.bucket(pos[None, :] - pos[:, None]))
        return bias.permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states):
        b, n, _ = hidden_states.shape
        q, k, v = (f(hidden_states).view(b, n, self.num_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + self.compute_bias(n)
        attn = nn.functional.softmax(scores, dim=-1)
        return self.o(torch.matmul(attn, v).transpose(1, 2).reshape(b, n, -1))
