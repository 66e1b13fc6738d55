"""Multi-query causal attention with ALiBi and tanh soft-capping.

Order of things, per score: scale by 1/sqrt(d), cap * tanh(s / cap), then the
ALiBi penalty -slope * (i - j), then the causal mask.  All query heads share a
single key/value head.  Slopes follow the reference code of the ALiBi paper,
also when the number of heads is no power of two.
"""
import math
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

KV = Tuple[Tensor, Tensor]


def get_slopes(n: int) -> List[float]:
    def power_of_2(m: int) -> List[float]:
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start**i for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


class CappedMQA(nn.Module):
    def __init__(self, width: int = 48, n_heads: int = 6, cap: Optional[float] = 20.0):
        super().__init__()
        self.n_heads = n_heads
        self.d = width // n_heads
        self.cap = cap
        self.wq = nn.Linear(width, width, bias=False)
        self.wkv = nn.Linear(width, 2 * self.d, bias=False)
        self.wo = nn.Linear(width, width, bias=False)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_heads)), persistent=False)

    def forward(self, x: Tensor, past: Optional[KV] = None) -> Tuple[Tensor, KV]:
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.d)
        k, v = self.wkv(x).chunk(2, dim=-1)              # [b, t, d]
        if past is not None:
            k = torch.cat((past[0], k), dim=1)
            v = torch.cat((past[1], v), dim=1)

        s = torch.einsum("bthd,bsd->bhts", q, k) / math.sqrt(self.d)
        if self.cap is not None:
            s = self.cap * torch.tanh(s / self.cap)

        total = k.shape[1]
        i = torch.arange(total - t, total, device=x.device)[:, None]
        j = torch.arange(total, device=x.device)[None, :]
        distance = i - j
        s = s - self.slopes.to(s.dtype)[:, None, None] * distance
        s = s.masked_fill(distance < 0, -math.inf)
        y = torch.einsum("bhts,bsd->bthd", s.softmax(-1), v)
        return self.wo(y.reshape(b, t, -1)), (k, v)
