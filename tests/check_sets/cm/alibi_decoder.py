"""ALiBi causal self-attention (Press et al., 2022)."""
import math
import torch
import torch.nn as nn


def get_slopes(n):
    def pow2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start ** i for i in range(n)]

    if math.log2(n).is_integer():
        return pow2(n)
    c = 2 ** math.floor(math.log2(n))
    return pow2(c) + get_slopes(2 * c)[0::2][: n - c]


class AlibiSelfAttention(nn.Module):
    """Causal attention over x (B, L, d_model); no position embeddings, each head adds
    -slope * (i - j) to its scores. Slopes as in the paper for any number of heads."""

    def __init__(self, d_model=48, num_heads=6):
        super().__init__()
        self.h = num_heads
        self.d = d_model // num_heads
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.register_buffer("slopes", torch.tensor(get_slopes(num_heads)))

    def forward(self, x):
        B, L, D = x.shape
        heads = lambda t: t.view(B, L, self.h, self.d).permute(0, 2, 1, 3)
        q, k, v = heads(self.wq(x)), heads(self.wk(x)), heads(self.wv(x))
        # slope * j differs from -slope * (i - j) by a constant in each row
        bias = self.slopes[:, None, None] * torch.arange(L, device=x.device)[None, None, :]
        s = q @ k.mT * (self.d ** -0.5) + bias
        hidden = torch.full((L, L), float("-inf"), device=x.device).triu(1)
        p = torch.softmax(s + hidden, dim=-1)
        return self.wo((p @ v).permute(0, 2, 1, 3).reshape(B, L, D))
