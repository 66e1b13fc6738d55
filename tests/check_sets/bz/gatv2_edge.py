"""GATv2 convolution on an edge list, without torch_geometric or torch_scatter.

Paper: "How Attentive are Graph Attention Networks?" (Brody, Alon, Yahav, ICLR 2022)

    e(i, j)     = a^T LeakyReLU(W_l x_j + W_r x_i)
    alpha(i, j) = softmax over the incoming edges j -> i
    h_i         = sum_j alpha(i, j) W_l x_j   (+ bias)

``edge_index`` has shape [2, E]; row 0 are sources j, row 1 are targets i.
A node with no incoming edge receives the bias only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(logits, index, num_segments):
    """Softmax of logits [E, H] inside the groups given by index [E]."""
    idx = index.unsqueeze(-1).expand_as(logits)
    top = logits.new_full((num_segments, logits.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, logits, reduce="amax", include_self=True)
    ex = (logits - top.gather(0, idx)).exp()
    den = logits.new_zeros(num_segments, logits.size(1)).scatter_add(0, idx, ex)
    return ex / den.gather(0, idx)


class GATv2Conv(nn.Module):
    def __init__(self, in_dim, out_dim, heads=4, concat=True, slope=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.out_dim, self.concat = heads, out_dim, concat
        self.slope, self.dropout = slope, dropout
        self.lin_l = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.lin_r = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim if concat else out_dim))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = edge_index
        left = self.lin_l(x).view(n, self.heads, self.out_dim)
        right = self.lin_r(x).view(n, self.heads, self.out_dim)

        e = F.leaky_relu(left[src] + right[dst], self.slope)
        e = (e * self.att).sum(-1)                              # [E, H]
        alpha = segment_softmax(e, dst, n)
        alpha = F.dropout(alpha, self.dropout, self.training)

        out = left.new_zeros(n, self.heads, self.out_dim)
        out.index_add_(0, dst, alpha.unsqueeze(-1) * left[src])
        out = out.flatten(1) if self.concat else out.mean(1)
        return out + self.bias


if __name__ == "__main__":
    torch.manual_seed(0)
    conv = GATv2Conv(5, 8, heads=2)
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 1]])
    print(conv(torch.randn(4, 5), edges).shape)
