"""Grouped-query attention (Ainslie et al. 2023). Tensors are named by their axes as far as possible."""
import torch
from torch import nn


class A(nn.Module):
    """
    n query heads share g key/value heads; consecutive query heads form a group
    (heads 0 .. n/g-1 use kv head 0 and so on), as in the checkpoints of LLaMA 2 70B.
    causal. x: b t c -> b t c
    """

    def __init__(self, c=32, n=4, g=2):
        super().__init__()
        assert c % n == 0 and n % g == 0
        self.n, self.g, self.d = n, g, c // n
        self.Q = nn.Linear(c, n * self.d, bias=False)
        self.K = nn.Linear(c, g * self.d, bias=False)
        self.V = nn.Linear(c, g * self.d, bias=False)
        self.O = nn.Linear(n * self.d, c, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q = self.Q(x).view(b, t, self.n, self.d).transpose(1, 2)
        k = self.K(x).view(b, t, self.g, self.d).transpose(1, 2)
        v = self.V(x).view(b, t, self.g, self.d).transpose(1, 2)
        r = self.n // self.g
        k = k.repeat(1, r, 1, 1)
        v = v.repeat(1, r, 1, 1)
        s = torch.matmul(q, k.mT) * self.d ** -0.5
        s = s + torch.full((t, t), -torch.inf, device=x.device, dtype=x.dtype).triu(1)
        y = torch.matmul(s.softmax(-1), v)
        return self.O(y.transpose(1, 2).reshape(b, t, self.n * self.d))
