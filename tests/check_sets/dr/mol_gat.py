"""Dense graph attention for batches of small molecules.

    x    (B, N, F)   atom features
    adj  (B, N, N)   adj[b, i, j] = 1 if atom i receives messages from atom j, else 0;
                     adj has a 1 on the diagonal, and need not be symmetric (the
                     ring-to-substituent edges are one-way)
    out  (B, N, heads * hidden)

For each receiving atom i the coefficients alpha[i, j] over its neighbours j sum to 1:

    e_ij     = LeakyReLU(a_dst . W x_i + a_src . W x_j)
    alpha_ij = softmax over j of e_ij, j in N(i)
    y_i      = ELU( sum_j alpha_ij W x_j )
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATLayer(nn.Module):
    def __init__(self, in_features, hidden, heads=3, alpha=0.2, dropout=0.0):
        super().__init__()
        self.heads, self.hidden = heads, hidden
        self.W = nn.Linear(in_features, heads * hidden, bias=False)
        self.a_dst = nn.Parameter(torch.empty(heads, hidden))
        self.a_src = nn.Parameter(torch.empty(heads, hidden))
        nn.init.xavier_uniform_(self.a_dst, gain=1.414)
        nn.init.xavier_uniform_(self.a_src, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, adj):
        B, N, _ = x.shape
        Wh = self.W(x).view(B, N, self.heads, self.hidden)
        f1 = (Wh * self.a_dst).sum(-1)                   # (B, N, heads)
        f2 = (Wh * self.a_src).sum(-1)
        e = self.leakyrelu(f1.unsqueeze(2) + f2.unsqueeze(1))    # (B, N, N, heads)

        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj.unsqueeze(-1) > 0, e, zero_vec)
        attention = F.softmax(attention, dim=1)
        attention = self.dropout(attention)

        h_prime = torch.einsum("bijh,bjhf->bihf", attention, Wh)
        return F.elu(h_prime.reshape(B, N, -1))
