"""How Attentive are Graph Attention Networks? (Brody et al., 2022) on small dense graphs.

GATv2 moves the vector `a` behind the nonlinearity:

    e(h_i, h_j) = a^T LeakyReLU(W_dst h_i + W_src h_j)
    alpha_ij    = softmax_j(e(h_i, h_j)),   j in N(i) + {i}
    h'_i        = sum_j alpha_ij W_src h_j

Heads are concatenated (or averaged in the last layer).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATv2Dense(nn.Module):
    """forward(h, adj)

    h   : (N, F_in) node features
    adj : (N, N), adj[i, j] != 0 when there is an edge j -> i, i.e. node i reads node j.
          Self loops are added here, so no neighbourhood is ever empty.
    out : (N, heads * F_out), or (N, F_out) with concat=False
    """

    def __init__(self, f_in, f_out, heads=4, concat=True, slope=0.2, p=0.3):
        super().__init__()
        self.heads, self.f_out, self.concat, self.slope = heads, f_out, concat, slope
        self.w_dst = nn.Linear(f_in, heads * f_out)
        self.w_src = nn.Linear(f_in, heads * f_out)
        self.a = nn.Parameter(torch.empty(heads, f_out))
        nn.init.xavier_uniform_(self.a)
        self.drop = nn.Dropout(p)

    def forward(self, h, adj):
        N = h.size(0)
        dst = self.w_dst(h).view(N, 1, self.heads, self.f_out)   # the reader i
        src = self.w_src(h).view(1, N, self.heads, self.f_out)   # the neighbour j
        z = F.leaky_relu(dst + src, self.slope)                  # (i, j, head, f)
        e = torch.einsum("ijhf,hf->ijh", z, self.a)

        edge = (adj != 0) | torch.eye(N, dtype=torch.bool, device=h.device)
        e = e.masked_fill(~edge[:, :, None], float("-inf"))
        alpha = e.softmax(dim=1)                                 # over neighbours j
        alpha = self.drop(alpha)

        out = torch.einsum("ijh,jhf->ihf", alpha, src[0])
        return out.flatten(1) if self.concat else out.mean(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    a = (torch.rand(6, 6) > 0.6).float()
    print(GATv2Dense(5, 3).eval()(torch.randn(6, 5), a).shape)
