import torch
from torch import nn


class ClickSink(nn.Module):
    """Sliding-window attention over an ad click log with a learned "look at nothing" logit.

    log (B, L, dim). Click i sees clicks i-window+1 .. i. Each head has one extra logit that
    takes part in the normalisation but carries no value, so the weights over the clicks may
    sum to less than one.
    """

    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.inp = nn.Linear(dim, 3 * dim)
        self.nothing = nn.Parameter(torch.zeros(heads))
        self.out = nn.Linear(dim, dim)

    def forward(self, log):
        B, L, C = log.shape
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for t in self.inp(log).chunk(3, dim=-1))
        s = (q @ k.transpose(2, 3)) / (C // self.heads) ** 0.5
        i = torch.arange(L, device=log.device)
        ago = i[:, None] - i[None, :]
        s = s.masked_fill((ago < 0) | (ago >= self.window), float("-inf"))
        sink = self.nothing.view(1, -1, 1, 1).expand(B, -1, L, 1)
        w = torch.cat([sink, s], dim=-1).softmax(-1)[..., 1:]
        return self.out((w @ v).transpose(1, 2).reshape(B, L, C))
