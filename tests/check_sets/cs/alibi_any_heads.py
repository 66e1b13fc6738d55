import math
import torch
from torch import nn


def get_slopes(n):
    """Slopes of the ALiBi paper's reference code, for any number of heads."""
    if math.log2(n).is_integer():
        start = 2.0 ** (-8.0 / n)
        return [start ** (i + 1) for i in range(n)]
    c = 2 ** math.floor(math.log2(n))
    return get_slopes(c) + get_slopes(2 * c)[0::2][: n - c]


class AlibiMQA(nn.Module):
    """Causal multi-query attention (a single shared key/value head) with ALiBi."""

    def __init__(self, d_model, n_head):
        super().__init__()
        assert d_model % n_head == 0
        self.h, self.d = n_head, d_model // n_head
        self.q = nn.Linear(d_model, d_model)
        self.kv = nn.Linear(d_model, 2 * self.d)
        self.o = nn.Linear(d_model, d_model)
        self.register_buffer("slopes", torch.tensor(get_slopes(n_head)).view(-1, 1, 1))

    def forward(self, x):
        b, t, _ = x.size()
        q = self.q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k, v = self.kv(x).unsqueeze(1).chunk(2, dim=-1)
        r = torch.arange(t, device=x.device)
        rel = (r[None, :] - r[:, None]).to(x.dtype)
        att = q @ k.mT / math.sqrt(self.d) + self.slopes.to(x.dtype) * rel
        att = att.masked_fill(rel > 0, -math.inf).softmax(-1)
        return self.o((att @ v).transpose(1, 2).reshape(b, t, -1))
