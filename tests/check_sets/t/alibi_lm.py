import math
import torch
from torch import nn


def get_slopes(n):
    def pow2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return pow2(n)
    m = 2 ** math.floor(math.log2(n))
    return pow2(m) + get_slopes(2 * m)[0::2][: n - m]


class AlibiAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.in_proj = nn.Linear(d, 3 * d)
        self.out_proj = nn.Linear(d, d)
        self.register_buffer("slopes", torch.tensor(get_slopes(heads)).view(heads, 1, 1), persistent=False)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q, k, v = self.in_proj(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        s = k.size(2)
        j = torch.arange(s, device=x.device)
        i = torch.arange(s - t, s, device=x.device)[:, None]
        bias = self.slopes * (j - i)
        bias = bias.masked_fill(j > i, float("-inf"))
        att = torch.baddbmm(
            bias.repeat(b, 1, 1),
            q.reshape(b * self.h, t, -1),
            k.reshape(b * self.h, s, -1).transpose(1, 2),
            alpha=(d // self.h) ** -0.5,
        ).view(b, self.h, t, s)
        y = att.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(b, t, d)), (k, v)
