"""Слой декодера: причинное самовнимание, затем внимание к памяти кодировщика."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Vnimanie(nn.Module):
    def __init__(self, razmer, golov, vybros=0.1):
        super().__init__()
        assert razmer % golov == 0
        self.golov = golov
        self.vybros = vybros
        self.k_zapros = nn.Linear(razmer, razmer)
        self.k_klyuch = nn.Linear(razmer, razmer)
        self.k_znach = nn.Linear(razmer, razmer)
        self.vyhod = nn.Linear(razmer, razmer)

    def forward(self, x, pamyat, maska=None):
        # maska: True там, где смотреть нельзя; расширяется до (B, golov, Tx, Tm)
        B, Tx, D = x.shape
        Tm = pamyat.shape[1]
        q = self.k_zapros(x).view(B, Tx, self.golov, -1)
        k = self.k_klyuch(pamyat).view(B, Tm, self.golov, -1)
        v = self.k_znach(pamyat).view(B, Tm, self.golov, -1)
        ocenki = torch.einsum("bqhd,bkhd->bhqk", q, k) / (D // self.golov) ** 0.5
        if maska is not None:
            ocenki = ocenki.masked_fill(maska, -1e9)
        vesa = F.softmax(ocenki, dim=-1)
        vesa = F.dropout(vesa, self.vybros)
        return self.vyhod(torch.einsum("bhqk,bkhd->bqhd", vesa, v).flatten(2))


class SloyDekodera(nn.Module):
    def __init__(self, razmer=32, golov=4, vnutri=64, vybros=0.1):
        super().__init__()
        self.samo = Vnimanie(razmer, golov, vybros)
        self.perekr = Vnimanie(razmer, golov, vybros)
        self.set1 = nn.Linear(razmer, vnutri)
        self.set2 = nn.Linear(vnutri, razmer)
        self.normy = nn.ModuleList([nn.LayerNorm(razmer) for _ in range(3)])
        self.vybros = nn.Dropout(vybros)

    def forward(self, x, pamyat, pad_pamyati=None):
        """x (B, Tx, razmer); pamyat (B, Tm, razmer); pad_pamyati (B, Tm), True = заполнитель"""
        T = x.shape[1]
        budushee = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        y = self.normy[0](x)
        x = x + self.vybros(self.samo(y, y, budushee))
        pad = None if pad_pamyati is None else pad_pamyati[:, None, None, :]
        x = x + self.vybros(self.perekr(self.normy[1](x), pamyat, pad))
        return x + self.vybros(self.set2(F.relu(self.set1(self.normy[2](x)))))


if __name__ == "__main__":
    torch.manual_seed(0)
    sloy = SloyDekodera().eval()
    pad = torch.zeros(2, 8, dtype=torch.bool)
    pad[1, 6:] = True
    print(sloy(torch.randn(2, 5, 32), torch.randn(2, 8, 32), pad).mean())
