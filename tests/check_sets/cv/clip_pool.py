import torch
from torch import nn


class BagPool(nn.Module):
    """Attention pooling of histology tiles (gated, Ilse et al. 2018), several queries.

    tiles (B, N, D); present (B, N) bool, True where the slide has a tile and False for filling
    (every slide has tiles). Returns (pooled (B, K, D), weights (B, K, N)).
    w = softmax_n( U (tanh(V x) * sigmoid(G x)) )
    """

    def __init__(self, D=24, hidden=12, K=2):
        super().__init__()
        self.V = nn.Linear(D, hidden)
        self.G = nn.Linear(D, hidden)
        self.U = nn.Linear(hidden, K)

    def forward(self, tiles, present=None):
        e = self.U(torch.tanh(self.V(tiles)) * torch.sigmoid(self.G(tiles)))     # B N K
        if present is not None:
            e = e.masked_fill(present.unsqueeze(-1), -1e9)
        w = e.softmax(dim=1).transpose(1, 2)
        return w @ tiles, w
