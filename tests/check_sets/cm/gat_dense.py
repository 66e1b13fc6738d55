"""Graph attention network on dense adjacency (Velickovic et al., 2018)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GATLayer(nn.Module):
    """h: (N, F_in), adj: (N, N) with adj[i, j] != 0 when i receives from j.

    Self loops are added here. e_ij = LeakyReLU(a_l . W h_i + a_r . W h_j), softmax
    over the neighbours j of i. Heads are concatenated (or averaged if concat=False).
    """

    def __init__(self, f_in, f_out, heads=3, concat=True, slope=0.2):
        super().__init__()
        self.heads, self.f_out, self.concat, self.slope = heads, f_out, concat, slope
        self.W = nn.Linear(f_in, heads * f_out, bias=False)
        self.a_l = nn.Parameter(torch.empty(heads, f_out))
        self.a_r = nn.Parameter(torch.empty(heads, f_out))
        nn.init.xavier_uniform_(self.a_l)
        nn.init.xavier_uniform_(self.a_r)

    def forward(self, h, adj):
        N = h.shape[0]
        z = self.W(h).view(N, self.heads, self.f_out)
        left = (z * self.a_l).sum(-1)  # (N, heads), receiver
        right = (z * self.a_r).sum(-1)  # (N, heads), sender
        e = F.leaky_relu(left[:, None, :] + right[None, :, :], self.slope)  # (i, j, heads)
        edge = (adj != 0) | torch.eye(N, dtype=torch.bool, device=h.device)
        e = e.masked_fill(~edge[:, :, None], float("-inf"))
        alpha = torch.softmax(e, dim=1)
        out = torch.einsum("ijh,jhf->ihf", alpha, z)
        return out.flatten(1) if self.concat else out.mean(1)


class GAT(nn.Module):
    def __init__(self, f_in=7, hidden=5, classes=4, heads=3):
        super().__init__()
        self.l1 = GATLayer(f_in, hidden, heads)
        self.l2 = GATLayer(hidden * heads, classes, heads=1, concat=False)

    def forward(self, h, adj):
        return self.l2(F.elu(self.l1(h, adj)), adj)
