"""SASRec (Kang & McAuley 2018), sade bir uygulama. Tez calismasi, bolum 4."""
import torch
import torch.nn as nn


class DikkatKati(nn.Module):
    """Nedensel oz-dikkat.

    x:   (B, L, D)
    bos: (B, L) bool, True = dolgu (urun yok). Dolgu solda durur.
    Hicbir sey goremeyen satirlar (soldaki dolgu) sifir verir.
    """

    def __init__(self, boyut, kafa, oran):
        super().__init__()
        self.kafa = kafa
        self.kafa_boyutu = boyut // kafa
        self.soru = nn.Linear(boyut, boyut)
        self.anahtar = nn.Linear(boyut, boyut)
        self.deger = nn.Linear(boyut, boyut)
        self.dusur = nn.Dropout(oran)

    def bol(self, x):
        B, L, _ = x.shape
        return x.view(B, L, self.kafa, self.kafa_boyutu).permute(0, 2, 1, 3)

    def forward(self, x, bos):
        B, L, D = x.shape
        puan = self.bol(self.soru(x)) @ self.bol(self.anahtar(x)).permute(0, 1, 3, 2)
        puan = puan / (self.kafa_boyutu ** 0.5)
        gelecek = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        kapali = gelecek | bos[:, None, None, :]
        puan = puan.masked_fill(kapali, torch.finfo(puan.dtype).min)
        agirlik = puan.softmax(-1).masked_fill(kapali, 0.0)
        cikti = self.dusur(agirlik) @ self.bol(self.deger(x))
        return cikti.permute(0, 2, 1, 3).reshape(B, L, D)


class Onerici(nn.Module):
    def __init__(self, urun=100, boyut=32, kafa=2, kat=2, uzunluk=20, oran=0.2):
        super().__init__()
        self.urun = nn.Embedding(urun + 1, boyut, padding_idx=0)
        self.yer = nn.Embedding(uzunluk, boyut)
        self.katlar = nn.ModuleList([DikkatKati(boyut, kafa, oran) for _ in range(kat)])
        self.duz1 = nn.ModuleList([nn.LayerNorm(boyut) for _ in range(kat)])
        self.duz2 = nn.ModuleList([nn.LayerNorm(boyut) for _ in range(kat)])
        self.ileri = nn.ModuleList(
            [nn.Sequential(nn.Linear(boyut, boyut), nn.ReLU(), nn.Linear(boyut, boyut)) for _ in range(kat)]
        )
        self.son = nn.LayerNorm(boyut)
        self.dusur = nn.Dropout(oran)

    def forward(self, gecmis):
        """gecmis (B, L): tiklanan urunler, 0 = dolgu. Her adimda sonraki urunun
        puanlari, (B, L, urun + 1). Puanlar urun gommeleri ile carpimdir."""
        bos = gecmis == 0
        yer = torch.arange(gecmis.size(1), device=gecmis.device)
        x = self.urun(gecmis) * self.urun.embedding_dim ** 0.5 + self.yer(yer)
        x = self.dusur(x)
        for dikkat, n1, n2, ileri in zip(self.katlar, self.duz1, self.duz2, self.ileri):
            x = x + dikkat(n1(x), bos)
            x = x + self.dusur(ileri(n2(x)))
        return self.son(x) @ self.urun.weight.T
