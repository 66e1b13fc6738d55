import torch
from torch import nn


class ShiftedWindowAttention1d(nn.Module):
    """Windows of `window` tokens on a circular signal, displaced by `shift`.  x (B, L, dim), L a multiple of window.

    Output i is the attention of token i over the tokens of its window.
    """

    def __init__(self, dim, window=4, shift=1):
        super().__init__()
        self.window, self.shift = window, shift
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x):
        b, l, d = x.shape
        x = torch.roll(x, -self.shift, dims=1).reshape(-1, self.window, d)
        a = torch.softmax(torch.bmm(self.q(x), self.k(x).transpose(1, 2)) / d ** 0.5, dim=-1)
        y = torch.bmm(a, self.v(x)).reshape(b, l, d)
        return torch.roll(y, -self.shift, dims=1)
