"""Is one of my moles dangerous?  Attention based MIL (Ilse, Tomczak, Welling 2018).

A "bag" is all photos of a patient, already as features H (B, K, M); bags are filled
up to K photos, `there` (B, K) is 1.0 for a real photo and 0.0 for filling.  Every
bag has at least one real photo.

Gated attention:
    g_k = w^T ( tanh(V h_k) * sigmoid(U h_k) )
    a   = softmax of g over the real photos of the bag
    z   = sum_k a_k h_k ,  p = sigmoid(c^T z)

Returns p (B,) and a (B, K).
"""
import torch
import torch.nn as nn


class MoleMIL(nn.Module):
    def __init__(self, M=32, L=16):
        super().__init__()
        self.V = nn.Linear(M, L)
        self.U = nn.Linear(M, L)
        self.w = nn.Linear(L, 1)
        self.c = nn.Linear(M, 1)

    def forward(self, H, there):
        g = self.w(torch.tanh(self.V(H)) * torch.sigmoid(self.U(H))).squeeze(-1)
        g = g + there.log()                  # log 1 = 0, log 0 = -inf
        g = g - g.amax(dim=1, keepdim=True)
        a = g.exp()
        a = a / a.sum(dim=1, keepdim=True)
        z = torch.bmm(a[:, None, :], H)[:, 0]
        return torch.sigmoid(self.c(z)).squeeze(-1), a
