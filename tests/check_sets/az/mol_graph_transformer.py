"""Graph transformer for molecular properties (Graphormer-like).

The spatial bias (from shortest-path distances) is computed once per batch and handed to
all layers, which only read it; every layer adds its own bias for the bond types to the
scores.  Molecules are padded to the largest in the batch: `is_atom` [B, N].
"""
import torch
import torch.nn as nn


class SpatialBias(nn.Module):
    def __init__(self, heads, max_dist=20):
        super().__init__()
        self.max_dist = max_dist
        self.table = nn.Embedding(max_dist + 2, heads)             # last row: not connected

    def forward(self, dist):
        """dist [B, N, N] integer path lengths, -1 where there is no path -> [B, H, N, N]"""
        idx = torch.where(dist < 0, self.max_dist + 1, dist.clamp(max=self.max_dist))
        return self.table(idx).permute(0, 3, 1, 2)


class BondBiasedAttention(nn.Module):
    def __init__(self, dim, heads, n_bond_types, p=0.0):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self.bond_bias = nn.Embedding(n_bond_types, heads)
        self.drop = nn.Dropout(p)

    def forward(self, x, bond, bias, is_atom):
        """x [B, N, C]; bond [B, N, N] type ids (0: no bond); bias [B, H, N, N]; is_atom [B, N] bool"""
        B, N, C = x.shape
        shape = (B, N, self.heads, self.head_dim)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        bias += self.bond_bias(bond).permute(0, 3, 1, 2)
        score = torch.matmul(q, k.mT) * self.head_dim ** -0.5 + bias
        score = score.masked_fill(~is_atom[:, None, None, :], torch.finfo(score.dtype).min)
        prob = self.drop(torch.softmax(score, dim=-1))
        y = torch.matmul(prob, v).transpose(1, 2).reshape(B, N, C)
        return self.out_proj(y)


class GraphLayer(nn.Module):
    def __init__(self, dim, heads, n_bond_types, p):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = BondBiasedAttention(dim, heads, n_bond_types, p)
        self.ffn = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim), nn.Dropout(p))

    def forward(self, x, bond, bias, is_atom):
        x = x + self.attn(self.n1(x), bond, bias, is_atom)
        return x + self.ffn(self.n2(x))


class MolTransformer(nn.Module):
    def __init__(self, n_elements=100, n_bond_types=5, dim=64, heads=8, layers=4, tasks=1, p=0.1):
        super().__init__()
        self.atom = nn.Embedding(n_elements, dim, padding_idx=0)
        self.degree = nn.Embedding(10, dim)
        self.spatial = SpatialBias(heads)
        self.layers = nn.ModuleList(GraphLayer(dim, heads, n_bond_types, p) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, tasks)

    def forward(self, element, bond, dist):
        is_atom = element != 0
        degree = (bond > 0).sum(-1).clamp(max=9)
        x = self.atom(element) + self.degree(degree)
        bias = self.spatial(dist)
        for layer in self.layers:
            x = layer(x, bond, bias, is_atom)
        w = is_atom[..., None].to(x.dtype)
        pooled = (self.norm(x) * w).sum(1) / w.sum(1).clamp_min(1)
        return self.head(pooled)


def shortest_paths(bond):
    """Floyd-Warshall on a batch of adjacency matrices; -1 where unreachable."""
    n = bond.shape[-1]
    far = 10 ** 6
    d = torch.where(bond > 0, 1, far)
    d[:, range(n), range(n)] = 0
    for k in range(n):
        d = torch.minimum(d, d[:, :, k, None] + d[:, None, k, :])
    return torch.where(d >= far, -1, d)


def collate(molecules):
    """molecules: list of (elements list, [(i, j, type), ...])"""
    n = max(len(e) for e, _ in molecules)
    element = torch.zeros(len(molecules), n, dtype=torch.long)
    bond = torch.zeros(len(molecules), n, n, dtype=torch.long)
    for b, (elems, bonds) in enumerate(molecules):
        element[b, :len(elems)] = torch.tensor(elems)
        for i, j, t in bonds:
            bond[b, i, j] = bond[b, j, i] = t
    return element, bond, shortest_paths(bond)


if __name__ == "__main__":
    ethanol = ([6, 6, 8], [(0, 1, 1), (1, 2, 1)])
    acetone = ([6, 6, 6, 8], [(0, 1, 1), (1, 2, 1), (1, 3, 2)])
    net = MolTransformer()
    print(net(*collate([ethanol, acetone])))
