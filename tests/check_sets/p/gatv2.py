import torch
from torch import nn


class GraphAttentionV2Layer(nn.Module):
    """GATv2 (Brody et al. 2021) on a dense adjacency matrix: e_ij = a^T LeakyReLU(W_l h_j + W_r h_i).

    h (N, in_features); adj_mat (N, N) bool, adj_mat[i, j] where there is an edge from j to i, with self loops
    """

    def __init__(self, in_features: int, out_features: int, n_heads: int = 2, leaky_relu_negative_slope: float = 0.2):
        super().__init__()
        self.n_heads = n_heads
        self.n_hidden = out_features // n_heads
        self.linear_l = nn.Linear(in_features, self.n_hidden * n_heads, bias=False)
        self.linear_r = nn.Linear(in_features, self.n_hidden * n_heads, bias=False)
        self.attn = nn.Linear(self.n_hidden, 1, bias=False)
        self.activation = nn.LeakyReLU(negative_slope=leaky_relu_negative_slope)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, h: torch.Tensor, adj_mat: torch.Tensor):
        n_nodes = h.shape[0]
        g_l = self.linear_l(h).view(n_nodes, self.n_heads, self.n_hidden)
        g_r = self.linear_r(h).view(n_nodes, self.n_heads, self.n_hidden)
        g_l_repeat = g_l.repeat(n_nodes, 1, 1)
        g_r_repeat_interleave = g_r.repeat_interleave(n_nodes, dim=0)
        g_sum = (g_l_repeat + g_r_repeat_interleave).view(n_nodes, n_nodes, self.n_heads, self.n_hidden)
        e = self.attn(self.activation(g_sum)).squeeze(-1)
        e = e.masked_fill(~adj_mat.unsqueeze(-1), float("-inf"))
        a = self.softmax(e)
        return torch.einsum("ijh,jhf->ihf", a, g_l).reshape(n_nodes, -1)
