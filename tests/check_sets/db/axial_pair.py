import torch
from torch import nn
import torch.nn.functional as F


class Kreuzblick(nn.Module):
    # Achsen-Aufmerksamkeit: erst jede Zeile, dann jede Spalte, Summe beider Wege.
    # bild: (B, kanal, hoehe, breite), hoehe <= max_h, breite <= max_b
    def __init__(self, kanal=16, koepfe=4, max_h=12, max_b=12):
        super().__init__()
        self.k = koepfe
        self.zeile = nn.Conv2d(kanal, 3 * kanal, 1)
        self.spalte = nn.Conv2d(kanal, 3 * kanal, 1)
        self.lage_b = nn.Parameter(torch.randn(koepfe, 2 * max_b - 1))
        self.lage_h = nn.Parameter(torch.randn(koepfe, 2 * max_h - 1))
        self.aus = nn.Conv2d(kanal, kanal, 1)

    @staticmethod
    def _lage(tafel, n):
        mitte = tafel.shape[1] // 2
        i = torch.arange(n, device=tafel.device)
        return tafel[:, i[None, :] - i[:, None] + mitte]

    def _laufe(self, paket, tafel):
        # paket: B, 3C, reihen, n  -> attention along n
        B, _, R, n = paket.shape
        q, k, v = paket.view(B, 3, self.k, -1, R, n).permute(1, 0, 4, 2, 5, 3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self._lage(tafel, n).to(q.dtype))
        return y.permute(0, 2, 4, 1, 3).reshape(B, -1, R, n)

    def forward(self, bild):
        quer = self._laufe(self.zeile(bild), self.lage_b)
        hoch = self._laufe(self.spalte(bild).transpose(2, 3), self.lage_h).transpose(2, 3)
        return self.aus(quer + hoch)
