"""GATv2 on molecules in plain PyTorch (no torch_geometric / torch_scatter).

edge_index[0] = source j, edge_index[1] = target i; messages flow j -> i and the
weights of all edges that ENTER i add up to one.
"""
import torch
from torch import nn, Tensor

ATOMS = ["C", "N", "O", "S", "F", "Cl", "Br", "P", "?"]
BONDS = {"single": 0, "double": 1, "triple": 2, "aromatic": 3, "self": 4}


def one_hot(symbols: list[str]) -> Tensor:
    idx = torch.tensor([ATOMS.index(s) if s in ATOMS else len(ATOMS) - 1 for s in symbols])
    return nn.functional.one_hot(idx, len(ATOMS)).float()


def segment_softmax(logit: Tensor, seg: Tensor, n: int) -> Tensor:
    """logit [E, H], seg [E] -> weights [E, H]"""
    idx = seg[:, None].expand_as(logit)
    top = logit.new_full((n, logit.shape[1]), float("-inf")).scatter_reduce(0, idx, logit, "amax")
    e = (logit - top[seg]).exp()
    z = logit.new_zeros(n, logit.shape[1]).index_add(0, seg, e)
    return e / z[seg]


class BondAttention(nn.Module):
    def __init__(self, d_in: int, d_out: int, heads: int, d_edge: int, slope: float = 0.2,
                 p_drop: float = 0.0, concat: bool = True):
        super().__init__()
        self.h, self.c, self.concat = heads, d_out, concat
        self.lin_src = nn.Linear(d_in, heads * d_out)
        self.lin_dst = nn.Linear(d_in, heads * d_out)
        self.lin_edge = nn.Linear(d_edge, heads * d_out, bias=False)
        self.att = nn.Parameter(torch.empty(heads, d_out))
        self.bias = nn.Parameter(torch.zeros(heads * d_out if concat else d_out))
        self.act = nn.LeakyReLU(slope)
        self.drop = nn.Dropout(p_drop)
        nn.init.xavier_uniform_(self.att)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor,
                return_weights: bool = False):
        src, dst = edge_index
        n = x.shape[0]
        xs = self.lin_src(x).view(n, self.h, self.c)
        xd = self.lin_dst(x).view(n, self.h, self.c)
        m = xs[src] + xd[dst] + self.lin_edge(edge_attr).view(-1, self.h, self.c)
        # v2: the nonlinearity stands before the dot product with `att`
        logit = (self.act(m) * self.att).sum(-1)
        alpha = segment_softmax(logit, dst, n)
        out = x.new_zeros(n, self.h, self.c).index_add(0, dst, xs[src] * self.drop(alpha)[..., None])
        out = out.flatten(1) if self.concat else out.mean(1)
        out = out + self.bias
        return (out, alpha) if return_weights else out


class MoleculeNet(nn.Module):
    def __init__(self, width=16, heads=4, targets=1):
        super().__init__()
        self.bond = nn.Embedding(len(BONDS), 8)
        self.a = BondAttention(len(ATOMS), width, heads, 8)
        self.b = BondAttention(width * heads, width, heads, 8, concat=False)
        self.head = nn.Linear(width, targets)

    def forward(self, x, edge_index, bond_type, graph_id):
        e = self.bond(bond_type)
        x = nn.functional.elu(self.a(x, edge_index, e))
        x = nn.functional.elu(self.b(x, edge_index, e))
        g = int(graph_id.max()) + 1
        pooled = x.new_zeros(g, x.shape[1]).index_add(0, graph_id, x)
        return self.head(pooled)


def ethanol():
    x = one_hot(["C", "C", "O"])
    ei = torch.tensor([[0, 1, 1, 2, 0, 1, 2], [1, 0, 2, 1, 0, 1, 2]])
    bt = torch.tensor([0, 0, 0, 0, 4, 4, 4])
    return x, ei, bt, torch.zeros(3, dtype=torch.long)


if __name__ == "__main__":
    print(MoleculeNet()(*ethanol()))
