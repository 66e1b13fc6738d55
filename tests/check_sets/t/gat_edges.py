"""Graph attention on an edge list, plain PyTorch (no torch_scatter needed)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_softmax(scores, index, num_nodes):
    """Softmax of ``scores`` (E, H) over all edges that share the same ``index`` (E,)."""
    idx = index[:, None].expand_as(scores)
    top = scores.new_full((num_nodes, scores.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, scores, reduce="amax")
    ex = torch.exp(scores - top[index])
    total = scores.new_zeros(num_nodes, scores.size(1)).index_add(0, index, ex)
    return ex / total[index]


class GATLayer(nn.Module):
    """
    Velickovic et al., "Graph Attention Networks".

    Args:
        in_dim:  size of the node features
        out_dim: size of the output per head
        heads:   number of heads, concatenated in the output
    """

    def __init__(self, in_dim, out_dim, heads=4, slope=0.2):
        super().__init__()
        self.heads, self.out_dim, self.slope = heads, out_dim, slope
        self.lin = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_dim))
        self.att_dst = nn.Parameter(torch.empty(heads, out_dim))
        self.bias = nn.Parameter(torch.zeros(heads * out_dim))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        """
        x:          (N, in_dim)
        edge_index: (2, E), row 0 = source nodes, row 1 = target nodes.
                    Every target gathers messages from its sources.
        """
        n = x.size(0)
        src, dst = edge_index
        h = self.lin(x).view(n, self.heads, self.out_dim)
        e = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = segment_softmax(F.leaky_relu(e, self.slope), dst, n)
        msg = alpha.unsqueeze(-1) * h[src]
        out = torch.zeros_like(h).index_add(0, dst, msg)
        return out.reshape(n, -1) + self.bias
