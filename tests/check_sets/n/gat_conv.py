import torch
import torch.nn as nn
import torch.nn.functional as F


class GATConv(nn.Module):
    """Graph attention over an edge list.

    x: (num_nodes, in_channels); edge_index: (2, num_edges), row 0 the sources and row 1 the targets.
    """

    def __init__(self, in_channels, out_channels, heads=2, negative_slope=0.2):
        super().__init__()
        self.heads, self.out_channels = heads, out_channels
        self.negative_slope = negative_slope
        self.lin = nn.Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.randn(1, heads, out_channels))
        self.att_dst = nn.Parameter(torch.randn(1, heads, out_channels))

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n, device=x.device)
        src = torch.cat([edge_index[0], loops])
        dst = torch.cat([edge_index[1], loops])
        h = self.lin(x).view(n, self.heads, self.out_channels)
        alpha_src = (h * self.att_src).sum(-1)
        alpha_dst = (h * self.att_dst).sum(-1)
        e = F.leaky_relu(alpha_src[src] + alpha_dst[dst], self.negative_slope)
        index = dst[:, None].expand_as(e)
        top = torch.full((n, self.heads), float("-inf"), dtype=x.dtype).scatter_reduce(0, index, e, reduce="amax")
        w = (e - top[dst]).exp()
        total = torch.zeros((n, self.heads), dtype=x.dtype).scatter_add(0, index, w)
        w = w / total[dst]
        out = torch.zeros_like(h).index_add(0, dst, w.unsqueeze(-1) * h[src])
        return out.flatten(1)
