"""Kilim motifi üreteci: dokuma satırları üzerinde "konuşan kafalar" dikkati.

Noam Shazeer'in talking-heads önerisi; kafalar softmax'tan önce ve sonra
birbirine karıştırılır.
"""
import torch
import torch.nn as nn

RENKLER = ["kök kırmızı", "çivit", "ceviz", "krem", "sarı papatya"]
DUGUM_SAYISI = 64


def satir_oku(metin):
    """'0120...' biçimindeki şemayı renk numaralarına çevirir."""
    return torch.tensor([int(c) for c in metin.strip()])


class KonusanKafalar(nn.Module):
    """
    x   : [B, N, C]  (bir satırdaki düğümler)
    gor : [B, N, N] ya da None; 1 = bakabilir, 0 = bakamaz.  Her satırda en az
          bir 1 bulunmalıdır.
    """

    def __init__(self, C=40, kafa=5):
        super().__init__()
        self.kafa = kafa
        self.olcek = (C // kafa) ** -0.5
        self.qkv = nn.Linear(C, 3 * C, bias=False)
        self.once = nn.Linear(kafa, kafa, bias=False)    # logit karışımı
        self.sonra = nn.Linear(kafa, kafa, bias=False)   # ağırlık karışımı
        self.cikis = nn.Linear(C, C)

    def forward(self, x, gor=None):
        B, N, C = x.shape
        # paket sırası: önce tüm q'lar, sonra k'lar, sonra v'ler
        q, k, v = (
            self.qkv(x).reshape(B, N, 3, self.kafa, C // self.kafa)
            .permute(2, 0, 3, 1, 4).unbind(0)
        )
        s = (q * self.olcek) @ k.transpose(-2, -1)
        s = self.once(s.permute(0, 2, 3, 1))             # [B, N, N, kafa]
        if gor is not None:
            # maske karışımdan sonra: karıştırma -inf görmesin
            s = s.masked_fill(gor[..., None] == 0, torch.finfo(s.dtype).min)
        a = torch.softmax(s, dim=2)                      # anahtar ekseni burada 2
        a = self.sonra(a).permute(0, 3, 1, 2)
        y = (a @ v).transpose(1, 2).flatten(2)
        return self.cikis(y)


class KilimModeli(nn.Module):
    def __init__(self, C=40, derinlik=2):
        super().__init__()
        self.renk = nn.Embedding(len(RENKLER), C)
        self.konum = nn.Parameter(torch.zeros(1, DUGUM_SAYISI, C))
        self.katman = nn.ModuleList([KonusanKafalar(C) for _ in range(derinlik)])
        self.ln = nn.ModuleList([nn.LayerNorm(C) for _ in range(derinlik)])
        self.son = nn.Linear(C, len(RENKLER))

    def forward(self, renkler):
        n = renkler.shape[1]
        h = self.renk(renkler) + self.konum[:, :n]
        # simetri: düğüm yalnız kendisine ve soluna bakar
        gor = torch.ones(n, n, device=h.device).tril().expand(renkler.shape[0], n, n)
        for ln, kat in zip(self.ln, self.katman):
            h = h + kat(ln(h), gor)
        return self.son(h)
