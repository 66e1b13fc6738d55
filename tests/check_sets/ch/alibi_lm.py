import math

import torch
import torch.nn as nn


def get_slopes(n):
    """Head slopes of Press et al. (2022), also for n that is no power of two."""
    def pow2(m):
        start = 2 ** (-2 ** -(math.log2(m) - 3))
        return [start * start ** i for i in range(m)]

    if math.log2(n).is_integer():
        return pow2(n)
    base = 2 ** math.floor(math.log2(n))
    return pow2(base) + get_slopes(2 * base)[0::2][: n - base]


class AlibiSelfAttention(nn.Module):
    """Causal self-attention with linear biases in place of position embeddings.

    x: (B, T, dim) -> (B, T, dim). The score of query i and key j <= i is
    q_i . k_j / sqrt(d_head) - slope * (i - j); the future is hidden.
    """

    def __init__(self, dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = dim // num_heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("slopes", torch.tensor(get_slopes(num_heads)).view(-1, 1, 1))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (
            t.view(B, T, self.num_heads, self.d_head).transpose(1, 2)
            for t in self.in_proj(x).split(C, dim=-1)
        )
        i = torch.arange(T, device=x.device)
        dist = i.view(-1, 1) - i.view(1, -1)

        att = q @ k.transpose(-2, -1) / math.sqrt(self.d_head)
        att = att - self.slopes * dist
        att = att.masked_fill(dist < 0, float("-inf"))
        att = self.dropout(att.softmax(-1))
        y = (att @ v).transpose(1, 2).reshape(B, T, C)
        return self.out_proj(y)


if __name__ == "__main__":
    m = AlibiSelfAttention(48, 6)
    print(m(torch.randn(2, 9, 48)).shape, m.slopes.flatten())
