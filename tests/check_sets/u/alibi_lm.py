import math

import torch
import torch.nn as nn


def get_slopes(n):
    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    m = 2 ** math.floor(math.log2(n))
    return power_of_2(m) + get_slopes(2 * m)[0::2][: n - m]


class AlibiAttention(nn.Module):
    """Causal attention with linear biases (Press et al., 2022) in place of position embeddings."""

    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model, bias=False)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_heads)))

    def bias(self, t):
        pos = torch.arange(t, device=self.slopes.device)
        distance = (pos[:, None] - pos[None, :]).clamp(min=0)
        return self.slopes[:, None, None] * distance

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c // self.n_heads)
        scores = scores + self.bias(t)
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(causal, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))
