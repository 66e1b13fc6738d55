import torch
from torch import nn


class AlibiAttention(nn.Module):
    """Causal self-attention with ALiBi."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.proj = nn.Linear(embed_dim, embed_dim, bias=False)
        slopes = torch.tensor([2.0 ** (-8.0 * (i + 1) / num_heads) for i in range(num_heads)])
        self.register_buffer("slopes", slopes)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(B, T, self.num_heads, -1).transpose(1, 2) for z in (q, k, v))
        pos = torch.arange(T, device=x.device)
        distance = pos[:, None] - pos[None, :]
        bias = self.slopes[:, None, None] * distance
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        scores = scores.masked_fill(future, float("-inf"))
        return self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, T, C))
