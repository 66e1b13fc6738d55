"""ALiBi attention for a small language model (Press et al., "Train short, test long")."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_slopes(n):
    """Slopes of the paper: 2^(-8/n), 2^(-16/n), ... for a power of two, else the recipe of the
    authors: those of the closest smaller power of two and every second one of the next."""
    def power_of_2(n):
        start = 2 ** (-2 ** -(math.log2(n) - 3))
        return [start * start ** i for i in range(n)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][:n - closest]


class AlibiAttention(nn.Module):
    """Causal self attention, x (B, T, D) -> (B, T, D), optional past (k, v), each (B, H, P, d).

    The new tokens stand behind the P cached ones. score(i, j) = q_i.k_j / sqrt(d) - slope_h * (i - j), j <= i.
    """

    def __init__(self, dim=48, heads=6):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("slopes", torch.tensor(get_slopes(heads)).view(1, heads, 1, 1))

    def forward(self, x, past=None):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.wqkv(x).chunk(3, -1))
        if past is not None:
            k = torch.cat([past[0], k], 2)
            v = torch.cat([past[1], v], 2)
        S = k.size(2)
        i = torch.arange(S - T, S, device=x.device)[:, None]
        j = torch.arange(S, device=x.device)[None, :]
        bias = (j - i) * self.slopes
        bias = bias.masked_fill(j > i, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.wo(y.transpose(1, 2).reshape(B, T, D)), (k, v)
