import torch
import torch.nn as nn


class EventAttention(nn.Module):
    """Causal attention over irregular hospital events.

    x (B, L, D) events in order, t (B, L) hours since admission (ascending).
    Logit of head h:  q_i . k_j / sqrt(d) - softplus(rho_h) * log(1 + t_i - t_j)   for j <= i,
    that is, events long ago in hours count less, however many events lie between.
    Returns (B, L, D).
    """

    def __init__(self, D=16, heads=2):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.rho = nn.Parameter(torch.linspace(0.0, 1.0, heads))

    def forward(self, x, t):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.heads, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        order = t.argsort(-1).argsort(-1).to(x.dtype)
        gap = (order[:, :, None] - order[:, None, :]).clamp(min=0)
        rate = nn.functional.softplus(self.rho)[:, None, None]
        s = q @ k.mT / self.d ** 0.5 - rate * torch.log1p(gap)[:, None]
        later = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        a = s.masked_fill(later, float("-inf")).softmax(-1)
        return self.o((a @ v).transpose(1, 2).reshape(B, L, D))
