"""Graph attention on dense batches of small graphs.

DenseGAT(in_dim, out_dim, heads, concat=True, slope=0.2)
    x     (B, N, in_dim)
    adj   (B, N, N), adj[b, i, j] = 1 if node i reads node j, else 0; self loops
          are added here
    ->    (B, N, heads * out_dim) with concat, else the mean, (B, N, out_dim)

    e_ij = leaky_relu(a_target . W x_i + a_source . W x_j)
    c_ij = coefficients of node i over its neighbours j (and i itself); they sum
           to one over the neighbours
    y_i  = sum_j c_ij W x_j + bias
return_coef=True gives (y, c), c (B, heads, N, N).
"""
import torch
import torch.nn.functional as F
from torch import nn


class DenseGAT(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, concat=True, slope=0.2):
        super().__init__()
        self.heads, self.out_dim, self.concat = heads, out_dim, concat
        self.slope = slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.a_target = nn.Parameter(torch.empty(heads, out_dim))
        self.a_source = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_uniform_(self.a_target)
        nn.init.xavier_uniform_(self.a_source)

    def forward(self, x, adj, return_coef=False):
        B, N, _ = x.shape
        h = self.lin(x).view(B, N, self.heads, self.out_dim)

        loops = torch.eye(N, dtype=torch.bool, device=x.device)
        edge = (adj > 0) | loops

        t = (h * self.a_target).sum(-1).transpose(1, 2)          # (B, heads, N)
        s = (h * self.a_source).sum(-1).transpose(1, 2)
        e = F.leaky_relu(t.unsqueeze(3) + s.unsqueeze(2), self.slope)

        c = torch.softmax(e, dim=-1)
        c = c * edge.unsqueeze(1).to(c.dtype)

        y = torch.einsum("bhij,bjho->biho", c, h)
        y = y.flatten(2) if self.concat else y.mean(dim=2)
        y = y + self.bias
        return (y, c) if return_coef else y


class GATEncoder(nn.Module):
    def __init__(self, in_dim, hidden, out_dim, heads=4):
        super().__init__()
        self.one = DenseGAT(in_dim, hidden, heads)
        self.two = DenseGAT(heads * hidden, out_dim, heads, concat=False)

    def forward(self, x, adj):
        return self.two(F.elu(self.one(x, adj)), adj)
