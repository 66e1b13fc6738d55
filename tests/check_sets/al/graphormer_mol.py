"""Graphormer layer for molecular property prediction (biases from shortest paths and bond types)."""
import torch
import torch.nn as nn


class CentralityEncoding(nn.Module):
    def __init__(self, max_degree, dim):
        super().__init__()
        self.table = nn.Embedding(max_degree + 1, dim)

    def forward(self, adj):
        return self.table(adj.sum(-1).clamp(max=self.table.num_embeddings - 1).long())


class MolAttention(nn.Module):
    """Attention between atoms.

    x           [B, N, D] atom features, molecules of a batch padded to N atoms
    spd         [B, N, N] shortest path distance in bonds, -1 for atoms that are not connected
    atom_mask   [B, N]    True for real atoms, False for padding
    Only connected real atoms are attended to.  Rows of padding atoms are thrown away by the
    readout, but they must stay finite because the readout multiplies by the mask.
    """

    def __init__(self, dim, heads, max_spd=20):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.spatial = nn.Embedding(max_spd + 1, heads)
        self.max_spd = max_spd

    def forward(self, x, spd, atom_mask):
        B, N, D = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * self.hd ** -0.5
        scores = scores + self.spatial(spd.clamp(0, self.max_spd)).permute(0, 3, 1, 2)

        lowest = torch.finfo(scores.dtype).min
        graph_bias = torch.zeros_like(scores[:, :1]).masked_fill((spd < 0).unsqueeze(1), lowest)
        real_pair = atom_mask[:, None, :, None] & atom_mask[:, None, None, :]
        pad_bias = torch.zeros_like(scores[:, :1]).masked_fill(~real_pair, lowest)
        scores = scores + (graph_bias + pad_bias)

        attn = scores.softmax(dim=-1)
        y = (attn @ v).transpose(1, 2).reshape(B, N, D)
        return self.out(y)


class GraphormerLayer(nn.Module):
    def __init__(self, dim, heads, ffn_dim):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MolAttention(dim, heads)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn_dim), nn.GELU(), nn.Linear(ffn_dim, dim))

    def forward(self, x, spd, atom_mask):
        x = x + self.attn(self.ln1(x), spd, atom_mask)
        return x + self.ffn(self.ln2(x))


class MolRegressor(nn.Module):
    def __init__(self, n_atom_types, dim=64, heads=4, depth=3):
        super().__init__()
        self.atom = nn.Embedding(n_atom_types, dim, padding_idx=0)
        self.centrality = CentralityEncoding(6, dim)
        self.layers = nn.ModuleList(GraphormerLayer(dim, heads, 2 * dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def forward(self, atoms, adj, spd):
        mask = atoms > 0
        x = self.atom(atoms) + self.centrality(adj)
        for layer in self.layers:
            x = layer(x, spd, mask)
        m = mask.unsqueeze(-1).to(x.dtype)
        return self.head((x * m).sum(1) / m.sum(1)).squeeze(-1)
