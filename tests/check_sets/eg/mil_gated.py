"""Gated attention pooling for whole slide images (multiple instance learning, Ilse et al. 2018)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedMIL(nn.Module):
    """
    bags:   (B, K, M) patch features; bags with fewer than K patches are filled with zeros
    n_inst: (B,) number of patches in each bag, at least 1
    Returns Y_prob (B,) and the attention A (B, branches, K), each row of which sums to one
    over the real patches of its bag.

    a_k = softmax_k( w^T ( tanh(V h_k) * sigmoid(U h_k) ) ),   z = sum_k a_k h_k
    """

    def __init__(self, M=32, L=16, branches=1):
        super().__init__()
        self.M, self.L, self.branches = M, L, branches
        self.attention_V = nn.Sequential(nn.Linear(M, L), nn.Tanh())
        self.attention_U = nn.Sequential(nn.Linear(M, L), nn.Sigmoid())
        self.attention_w = nn.Linear(L, branches)
        self.classifier = nn.Sequential(nn.Linear(M * branches, 1), nn.Sigmoid())

    def forward(self, bags, n_inst):
        A = self.attention_w(self.attention_V(bags) * self.attention_U(bags))   # B x K x branches
        A = A.transpose(2, 1)
        slots = torch.arange(bags.size(1), device=bags.device)
        empty = slots[None, :] >= n_inst[:, None]
        A = A.masked_fill(empty.unsqueeze(1), -torch.inf)
        A = F.softmax(A, dim=2)
        Z = torch.bmm(A, bags)
        return self.classifier(Z.flatten(1)).squeeze(1), A

    def loss(self, bags, n_inst, Y):
        prob, _ = self.forward(bags, n_inst)
        prob = prob.clamp(1e-5, 1 - 1e-5)
        return -(Y * prob.log() + (1 - Y) * (1 - prob).log()).mean()
