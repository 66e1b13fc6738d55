import math
import torch
from torch import nn
from torch.nn import functional as F


def get_slopes(n):
    def pow2(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    c = 2 ** math.floor(math.log2(n))
    slopes = pow2(c)
    if c != n:
        slopes += pow2(2 * c)[0::2][: n - c]
    return torch.tensor(slopes)


class TrainShortTestLong(nn.Module):
    """Causal self-attention whose only notion of order is the linear penalty on distance."""

    def __init__(self, width, heads, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("slopes", get_slopes(heads), persistent=False)

    def bias(self, tq, tk):
        i = torch.arange(tk - tq, tk, device=self.slopes.device)[:, None]
        j = torch.arange(tk, device=self.slopes.device)[None, :]
        b = -self.slopes[:, None, None] * (i - j)
        return b.masked_fill(j > i, float("-inf"))

    def forward(self, x, past=None):
        # x (N, T, width); past = (K, V) of the earlier tokens, each (N, heads, P, width // heads)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        m = self.bias(q.size(2), k.size(2)).to(q.dtype)
        z = F.scaled_dot_product_attention(q, k, v, attn_mask=m, dropout_p=self.p if self.training else 0.0)
        return self.out(z.transpose(1, 2).flatten(2)), (k, v)
