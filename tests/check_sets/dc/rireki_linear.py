# 長い購買履歴 (数千件) を O(L) で読む
import torch
import torch.nn as nn
import torch.nn.functional as F


class RirekiLinear(nn.Module):
    """Kernelised (elu + 1) reading of long histories, each step sees itself and the past.

    rireki (B, L, D) -> (B, L, D)
    """

    def __init__(self, jigen, atama=4):
        super().__init__()
        self.atama = atama
        self.toi = nn.Linear(jigen, jigen)
        self.kagi = nn.Linear(jigen, jigen)
        self.atai = nn.Linear(jigen, jigen)
        self.de = nn.Linear(jigen, jigen)

    def forward(self, rireki):
        B, L, D = rireki.shape
        wakeru = lambda t: t.view(B, L, self.atama, D // self.atama)
        q = F.elu(wakeru(self.toi(rireki))) + 1
        k = F.elu(wakeru(self.kagi(rireki))) + 1
        v = wakeru(self.atai(rireki))
        kv = torch.einsum("blhd,blhe->blhde", k, v).cumsum(1)
        z = k.cumsum(1)
        ue = torch.einsum("blhd,blhde->blhe", q, kv)
        shita = (q * z).sum(-1, keepdim=True)
        return self.de((ue / shita).reshape(B, L, D))
