"""GAT layer with a dense adjacency matrix, for the citation graphs of the course.

    x   : (N, F)
    adj : (N, N), adj[i, j] = 1 if node i may look at node j (self-loops are in adj), else 0

For each head: z = x W, e_ij = LeakyReLU(a_l . z_i + a_r . z_j), softmax over the neighbours
j of i (nodes with adj 0 get weight zero), h_i = ELU(sum_j alpha_ij z_j). Heads are concatenated.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DenseGATHead(nn.Module):
    def __init__(self, n_in, n_out, alpha=0.2):
        super().__init__()
        self.W = nn.Parameter(torch.empty(n_in, n_out))
        self.a_left = nn.Parameter(torch.empty(n_out, 1))
        self.a_right = nn.Parameter(torch.empty(n_out, 1))
        self.leaky = nn.LeakyReLU(alpha)
        for p in self.parameters():
            nn.init.xavier_uniform_(p, gain=1.414)

    def forward(self, x, adj):
        z = x @ self.W                                    # N, n_out
        e = self.leaky(z @ self.a_left + (z @ self.a_right).T)
        e = e * adj
        att = F.softmax(e, dim=1)
        return F.elu(att @ z)


class DenseGAT(nn.Module):
    def __init__(self, n_in, n_hidden, n_class, n_heads=4):
        super().__init__()
        self.heads = nn.ModuleList([DenseGATHead(n_in, n_hidden) for _ in range(n_heads)])
        self.last = DenseGATHead(n_hidden * n_heads, n_class)

    def forward(self, x, adj):
        x = torch.cat([h(x, adj) for h in self.heads], dim=1)
        return F.log_softmax(self.last(x, adj), dim=1)


def accuracy(logp, labels, idx):
    return (logp[idx].argmax(1) == labels[idx]).float().mean().item()
