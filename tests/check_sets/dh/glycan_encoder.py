import torch
import torch.nn as nn
import torch.nn.functional as F


class SugarLayer(nn.Module):
    """Encoder layer for linearised glycans (monosaccharide tokens).

    h   : (batch, n_sugars, dim)
    real: (batch, n_sugars) bool, at least one per glycan
    """

    def __init__(self, dim=24, n_heads=2, p=0.25):
        super().__init__()
        self.n_heads, self.p = n_heads, p
        self.w = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def exchange(self, h, real):
        n, l, c = h.shape
        q, k, v = self.w(h).view(n, l, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        s = torch.einsum("nhid,nhjd->nhij", q, k) / (c // self.n_heads) ** 0.5
        s = s.masked_fill(~real[:, None, None], float("-inf"))
        a = F.dropout(torch.softmax(s, dim=-1), p=self.p)
        return self.o(torch.einsum("nhij,nhjd->nihd", a, v).reshape(n, l, c))

    def forward(self, h, real):
        h = self.ln(h + F.dropout(self.exchange(h, real), p=self.p, training=self.training))
        f = self.down(F.relu(self.up(h)))
        return self.ln2(h + F.dropout(f, p=self.p, training=self.training))
