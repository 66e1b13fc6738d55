import torch
import torch.nn as nn


class SepetDikkati(nn.Module):
    """Multi-head scaled dot-product self-attention over the items of a shopping basket.

    sepet: (B, N, boyut)
    dolu:  (B, N) float, 1 = the slot holds an item, 0 = empty slot.  Empty slots take no part
           as keys (zero weight).  A basket has at least one item.
    """

    def __init__(self, boyut=24, bas=3):
        super().__init__()
        self.bas, self.dk = bas, boyut // bas
        self.sorgu = nn.Linear(boyut, boyut)
        self.anahtar = nn.Linear(boyut, boyut)
        self.deger = nn.Linear(boyut, boyut)
        self.cikis = nn.Linear(boyut, boyut)

    def katla(self, t):
        B, N, _ = t.shape
        return t.view(B, N, self.bas, self.dk).transpose(1, 2).reshape(B * self.bas, N, self.dk)

    def forward(self, sepet, dolu):
        B, N, D = sepet.shape
        q = self.katla(self.sorgu(sepet))
        k = self.katla(self.anahtar(sepet))
        v = self.katla(self.deger(sepet))
        puan = torch.bmm(q, k.transpose(1, 2)) / self.dk ** -0.5
        puan = puan * dolu.repeat_interleave(self.bas, dim=0).unsqueeze(1)
        agirlik = torch.softmax(puan, dim=-1)
        y = torch.bmm(agirlik, v)
        y = y.view(self.bas, B, N, self.dk).permute(1, 2, 0, 3).reshape(B, N, D)
        return self.cikis(y)
