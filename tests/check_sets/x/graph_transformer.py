import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphTransformerLayer(nn.Module):
    """Attention restricted to the neighbours in the graph, with a learned bias per bond type.

    h: B x N x dim, adj: B x N x N (0/1, self loops included), e: B x N x N int64 bond types
    """

    def __init__(self, dim, n_heads, n_edge_types=5, dropout=0.0):
        super().__init__()
        self.n_heads, self.d = n_heads, dim // n_heads
        self.Q = nn.Linear(dim, dim, bias=False)
        self.K = nn.Linear(dim, dim, bias=False)
        self.V = nn.Linear(dim, dim, bias=False)
        self.O = nn.Linear(dim, dim)
        self.edge_bias = nn.Embedding(n_edge_types, n_heads)
        self.bn1, self.bn2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))
        self.dropout = dropout

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.n_heads, self.d).permute(0, 2, 1, 3)

    def forward(self, h, adj, e):
        h_in = h
        q, k, v = self.split(self.Q(h)), self.split(self.K(h)), self.split(self.V(h))
        score = torch.einsum('bhid,bhjd->bhij', q, k) / self.d ** 0.5
        score = score + self.edge_bias(e).permute(0, 3, 1, 2)
        score.masked_fill(adj.unsqueeze(1) == 0, -1e9)
        alpha = F.softmax(score, dim=-1)
        out = torch.einsum('bhij,bhjd->bhid', alpha, v)
        out = out.permute(0, 2, 1, 3).reshape(h.shape)
        h = self.bn1(h_in + F.dropout(self.O(out), self.dropout, self.training))
        return self.bn2(h + F.dropout(self.ffn(h), self.dropout, self.training))


class GraphTransformerNet(nn.Module):
    def __init__(self, n_atom_types=28, dim=32, n_heads=4, L=2):
        super().__init__()
        self.embed = nn.Embedding(n_atom_types, dim)
        self.layers = nn.ModuleList(GraphTransformerLayer(dim, n_heads) for _ in range(L))
        self.readout = nn.Linear(dim, 1)

    def forward(self, atoms, adj, e):
        h = self.embed(atoms)
        for layer in self.layers:
            h = layer(h, adj, e)
        return self.readout(h.mean(1)).squeeze(-1)
