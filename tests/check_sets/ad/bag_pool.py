# pooling a bag of instances (histology tiles) into k vectors
import torch
import torch.nn as nn


class BagPool(nn.Module):
    """Pooling by multihead attention: k learned seeds ask, the tiles of the slide answer.

    tiles : (B, N, dim)     empty : (B, N) bool, True for the filler rows of short bags.
    A slide of nothing but filler gives the seeds themselves (through the MLP).
    """

    def __init__(self, dim, k=4, heads=8):
        super().__init__()
        self.heads = heads
        self.seeds = nn.Parameter(torch.empty(1, k, dim))
        nn.init.xavier_uniform_(self.seeds)
        self.fq = nn.Linear(dim, dim)
        self.fk = nn.Linear(dim, dim)
        self.fv = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, tiles, empty=None):
        B, N, dim = tiles.shape
        H, e = self.heads, dim // self.heads
        Q = self.fq(self.seeds).expand(B, -1, -1)

        def fold(t):
            return torch.cat(t.split(e, dim=2), dim=0)      # (H*B, ., e)

        q, k, v = fold(Q), fold(self.fk(tiles)), fold(self.fv(tiles))
        A = torch.bmm(q, k.transpose(1, 2)) / e ** 0.5
        if empty is not None:
            gone = empty.repeat(H, 1).unsqueeze(1)
            A = A.masked_fill(gone, torch.finfo(A.dtype).min).softmax(2)
            A = A.masked_fill(gone, 0.0)
        else:
            A = A.softmax(2)
        O = q + torch.bmm(A, v)
        O = torch.cat(O.split(B, dim=0), dim=2)
        return O + self.mlp(O)
