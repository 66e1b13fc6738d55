"""Pengarah pakar (mixture of experts) untuk tiket layanan telekomunikasi.

Setiap token dikirim ke `pilih` pakar terbaik; bobotnya softmax atas skor pakar
terpilih saja. Mengembalikan juga rugi keseimbangan beban (Switch Transformer).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pakar(nn.Module):
    def __init__(self, lebar, dalam):
        super().__init__()
        self.naik = nn.Linear(lebar, dalam)
        self.gerbang = nn.Linear(lebar, dalam)
        self.turun = nn.Linear(dalam, lebar)

    def forward(self, x):
        return self.turun(F.silu(self.gerbang(x)) * self.naik(x))


class PengarahPakar(nn.Module):
    def __init__(self, lebar=32, dalam=64, jumlah=6, pilih=2):
        super().__init__()
        self.jumlah, self.pilih = jumlah, pilih
        self.skor = nn.Linear(lebar, jumlah, bias=False)
        self.pakar = nn.ModuleList(Pakar(lebar, dalam) for _ in range(jumlah))

    def forward(self, token):
        """token: (B, L, lebar) -> (hasil (B, L, lebar), rugi skalar)"""
        datar = token.reshape(-1, token.shape[-1])
        logit = self.skor(datar)
        nilai, indeks = logit.topk(self.pilih, dim=-1)
        bobot = nilai.softmax(dim=-1)

        hasil = torch.zeros_like(datar)
        for e, pakar in enumerate(self.pakar):
            baris, ke = (indeks == e).nonzero(as_tuple=True)
            if baris.numel() == 0:
                continue
            hasil = hasil.index_add(0, baris, bobot[baris, ke, None] * pakar(datar[baris]))

        peluang = logit.softmax(dim=-1).mean(dim=0)
        bagian = F.one_hot(indeks[:, 0], self.jumlah).float().mean(dim=0)
        rugi = self.jumlah * (peluang * bagian).sum()
        return hasil.view_as(token), rugi
