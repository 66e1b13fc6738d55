import math

import torch
import torch.nn as nn


class KotobaChuui(nn.Module):
    """Multi-head cross-attention (Vaswani et al. 2017) from a dialogue turn to retrieved notes.

    toi:  (B, n, jigen) the turn
    memo: (B, m, jigen) the notes
    returns (B, n, jigen), for each head softmax(Q K^T / sqrt(d)) V, heads joined and projected,
    and the weights (B, atama, n, m).
    """

    def __init__(self, jigen=32, atama=4):
        super().__init__()
        self.atama, self.d = atama, jigen // atama
        self.w_toi = nn.Linear(jigen, jigen)
        self.w_kagi = nn.Linear(jigen, jigen)
        self.w_atai = nn.Linear(jigen, jigen)
        self.w_de = nn.Linear(jigen, jigen)

    def wakeru(self, t):
        return t.unflatten(2, (self.atama, self.d)).transpose(1, 2)

    def forward(self, toi, memo):
        q = self.wakeru(self.w_toi(toi))
        kagi = self.wakeru(self.w_kagi(memo))
        atai = self.wakeru(self.w_atai(memo))
        omomi = torch.softmax(q @ kagi.transpose(2, 3) / math.sqrt(self.d), dim=3)
        kekka = torch.einsum("bhnm,bhmd->bnhd", omomi, kagi)
        return self.w_de(kekka.flatten(2)), omomi
