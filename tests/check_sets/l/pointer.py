import torch
from torch import nn


class PointerNet(nn.Module):
    """Pointer attention (Vinyals et al. 2015): returns the distribution over the input positions.

    u_j = v^T tanh(W1 e_j + W2 d); visited (batch, n) bool marks the positions that may not be chosen again.
    """

    def __init__(self, n_hidden):
        super().__init__()
        self.W1 = nn.Linear(n_hidden, n_hidden, bias=False)
        self.W2 = nn.Linear(n_hidden, n_hidden, bias=False)
        self.v = nn.Linear(n_hidden, 1, bias=False)

    def forward(self, enc, dec, visited):
        u = self.v(torch.tanh(self.W1(enc) + self.W2(dec)[:, None])).squeeze(-1)
        u = u.masked_fill(visited, torch.finfo(u.dtype).min)
        return torch.softmax(u, dim=-1)
