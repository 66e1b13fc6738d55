"""Traduttore italiano -> ladino: Transformer encoder-decoder (Vaswani et al. 2017)."""
import math
import torch
import torch.nn as nn

PAD = 0


class CodificaPosizionale(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)),  PE(pos, 2i+1) = cos(pos / 10000^(2i/d))"""

    def __init__(self, d, max_len=512, p=0.1):
        super().__init__()
        self.drop = nn.Dropout(p)
        pe = torch.zeros(max_len, d)
        pos = torch.arange(max_len, dtype=torch.float).unsqueeze(1)
        i = torch.arange(0, d, 2, dtype=torch.float)
        angolo = pos / 10000 ** (2 * i / d)
        pe[:, 0::2] = torch.sin(angolo)
        pe[:, 1::2] = torch.cos(angolo)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return self.drop(x + self.pe[:, :x.size(1)])


class Attenzione(nn.Module):
    """Attenzione a piu teste. maschera: True = da ignorare, si adatta a (B, h, Tq, Tk)."""

    def __init__(self, d, h, p=0.1):
        super().__init__()
        self.h, self.dk = h, d // h
        self.lq, self.lk, self.lv, self.lo = (nn.Linear(d, d) for _ in range(4))
        self.drop = nn.Dropout(p)

    def forward(self, q, k, v, maschera=None):
        B = q.size(0)
        Q = self.lq(q).view(B, -1, self.h, self.dk).transpose(1, 2)
        K = self.lk(k).view(B, -1, self.h, self.dk).transpose(1, 2)
        V = self.lv(v).view(B, -1, self.h, self.dk).transpose(1, 2)
        punteggi = Q @ K.transpose(-2, -1) / math.sqrt(self.dk)
        if maschera is not None:
            punteggi = punteggi.masked_fill(maschera, -1e9)
        pesi = self.drop(torch.softmax(punteggi, dim=-1))
        contesto = (pesi @ V).contiguous().view(B, -1, self.h * self.dk)
        return self.lo(contesto)


class Strato(nn.Module):
    def __init__(self, d, h, ff, p, incrociata=False):
        super().__init__()
        self.sa = Attenzione(d, h, p)
        self.ca = Attenzione(d, h, p) if incrociata else None
        self.ff = nn.Sequential(nn.Linear(d, ff), nn.ReLU(), nn.Dropout(p), nn.Linear(ff, d))
        self.norme = nn.ModuleList(nn.LayerNorm(d) for _ in range(3 if incrociata else 2))
        self.drop = nn.Dropout(p)

    def forward(self, x, m, memoria=None, mm=None):
        x = self.norme[0](x + self.drop(self.sa(x, x, x, m)))
        if self.ca is not None:
            x = self.norme[1](x + self.drop(self.ca(x, memoria, memoria, mm)))
        return self.norme[-1](x + self.drop(self.ff(x)))


class Traduttore(nn.Module):
    def __init__(self, v_it, v_lad, d=128, h=4, n=3, ff=512, p=0.1):
        super().__init__()
        self.d = d
        self.e1 = nn.Embedding(v_it, d, padding_idx=PAD)
        self.e2 = nn.Embedding(v_lad, d, padding_idx=PAD)
        self.pos = CodificaPosizionale(d, p=p)
        self.enc = nn.ModuleList(Strato(d, h, ff, p) for _ in range(n))
        self.dec = nn.ModuleList(Strato(d, h, ff, p, True) for _ in range(n))
        self.uscita = nn.Linear(d, v_lad)

    def codifica(self, src):
        m = (src == PAD)[:, None, None, :]
        x = self.pos(self.e1(src) * math.sqrt(self.d))
        for s in self.enc:
            x = s(x, m)
        return x, m

    def decodifica(self, tgt, memoria, mm):
        T = tgt.size(1)
        futuro = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(1)
        m = (tgt == PAD)[:, None, None, :] | futuro
        x = self.pos(self.e2(tgt) * math.sqrt(self.d))
        for s in self.dec:
            x = s(x, m, memoria, mm)
        return self.uscita(x)

    def forward(self, src, tgt):
        memoria, mm = self.codifica(src)
        return self.decodifica(tgt, memoria, mm)
