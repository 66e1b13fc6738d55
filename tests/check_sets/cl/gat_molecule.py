import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATLayer(nn.Module):
    r"""Graph attention (Velickovic et al. 2018) on small dense molecules.

    e_ij = LeakyReLU(a_dst . W h_i + a_src . W h_j), normalised over the
    neighbours j of atom i. Self loops are added here, so every atom has at
    least one neighbour.

    Args:
        h:   (B, N, f_in) atom features
        adj: (B, N, N) 0/1 matrix of bonds, adj[b, i, j] = 1 if i and j are bonded
    Returns (B, N, n_heads * f_out)
    """

    def __init__(self, f_in=16, f_out=8, n_heads=2, slope=0.2):
        super().__init__()
        self.n_heads, self.f_out = n_heads, f_out
        self.W = nn.Linear(f_in, n_heads * f_out, bias=False)
        self.a_dst = nn.Parameter(torch.empty(n_heads, f_out))
        self.a_src = nn.Parameter(torch.empty(n_heads, f_out))
        self.slope = slope
        nn.init.xavier_uniform_(self.a_dst)
        nn.init.xavier_uniform_(self.a_src)

    def forward(self, h, adj):
        B, N, _ = h.shape
        z = self.W(h).view(B, N, self.n_heads, self.f_out)
        dst = torch.einsum("bnhf,hf->bhn", z, self.a_dst)
        src = torch.einsum("bnhf,hf->bhn", z, self.a_src)
        e = F.leaky_relu(dst[..., :, None] + src[..., None, :], self.slope)

        eye = torch.eye(N, dtype=torch.bool, device=h.device)
        nb = adj.bool() | eye
        e = e.masked_fill(~nb[:, None], float("-inf"))
        alpha = torch.softmax(e, dim=-1)
        out = torch.einsum("bhij,bjhf->bihf", alpha, z)
        return F.elu(out.reshape(B, N, -1))


class LogPNet(nn.Module):
    """Two GAT layers and a mean over atoms, predicts logP."""

    def __init__(self, f_in=16):
        super().__init__()
        self.g1 = DenseGATLayer(f_in, 8, 2)
        self.g2 = DenseGATLayer(16, 8, 2)
        self.read = nn.Linear(16, 1)

    def forward(self, h, adj):
        return self.read(self.g2(self.g1(h, adj), adj).mean(1)).squeeze(-1)
