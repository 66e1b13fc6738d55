"""Giysi kesim parçalarını ayırmak için yuva dikkati (Slot Attention, Locatello 2020).

Dikkat: softmax YUVALAR üzerinden alınır, yani yuvalar pikseller için yarışır;
sonra her yuvanın ağırlıkları pikseller üzerinden 1'e tamamlanır (ağırlıklı
ortalama). Bu, alışılmış dikkatten farklıdır ve bilerek böyledir.

İlk yuvalar rastgele değil, öğrenilen vektörlerdir (her koşuda aynı sonuç).
"""
import torch
import torch.nn as nn


class YuvaDikkati(nn.Module):
    def __init__(self, yuva_sayisi=4, boyut=32, tur=3, gizli=64, eps=1e-8):
        super().__init__()
        self.tur, self.eps, self.olcek = tur, eps, boyut ** -0.5
        self.ilk = nn.Parameter(torch.randn(1, yuva_sayisi, boyut))
        self.sorgu = nn.Linear(boyut, boyut, bias=False)
        self.anahtar = nn.Linear(boyut, boyut, bias=False)
        self.deger = nn.Linear(boyut, boyut, bias=False)
        self.guncelle = nn.GRUCell(boyut, boyut)
        self.mlp = nn.Sequential(nn.Linear(boyut, gizli), nn.ReLU(), nn.Linear(gizli, boyut))
        self.n_girdi = nn.LayerNorm(boyut)
        self.n_yuva = nn.LayerNorm(boyut)
        self.n_mlp = nn.LayerNorm(boyut)

    def forward(self, pikseller):
        """pikseller: (B, N, boyut)  ->  yuvalar (B, S, boyut), maskeler (B, S, N)

        maskeler[b, :, n] bir dağılımdır: n pikselinin hangi yuvaya ait olduğu.
        """
        B, N, D = pikseller.shape
        x = self.n_girdi(pikseller)
        k, v = self.anahtar(x), self.deger(x)
        yuvalar = self.ilk.expand(B, -1, -1)
        S = yuvalar.shape[1]
        for _ in range(self.tur):
            q = self.sorgu(self.n_yuva(yuvalar))
            puan = torch.einsum("bsd,bnd->bsn", q, k) * self.olcek
            maske = puan.softmax(dim=1)                        # yuvalar arası yarış
            agirlik = maske + self.eps
            agirlik = agirlik / agirlik.sum(dim=2, keepdim=True)
            toplanan = torch.einsum("bsn,bnd->bsd", agirlik, v)
            yuvalar = self.guncelle(toplanan.reshape(-1, D), yuvalar.reshape(-1, D)).view(B, S, D)
            yuvalar = yuvalar + self.mlp(self.n_mlp(yuvalar))
        return yuvalar, maske
