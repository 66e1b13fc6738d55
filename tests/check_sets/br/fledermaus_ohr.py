"""Fledermausrufe verschriften: Kodierer/Dekodierer nach dem Vorbild von Whisper.

Eigenheiten der Vorlage, die hier beibehalten sind:
  - der Schlüssel hat keinen Bias,
  - Anfrage UND Schlüssel werden je mit d ** -0.25 gestaucht (statt einmal d ** -0.5),
    das ist in halber Genauigkeit gutmütiger.
Anders als dort liegt der Zwischenspeicher in einem schlichten dict und es dürfen
auch mehrere neue Silben auf einmal an einen gefüllten Speicher angehängt werden.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sinuskurven(laenge, kanaele, max_zeit=10000.0):
    schritt = torch.log(torch.tensor(max_zeit)) / (kanaele // 2 - 1)
    inv = torch.exp(-schritt * torch.arange(kanaele // 2))
    t = torch.arange(laenge)[:, None] * inv[None]
    return torch.cat([t.sin(), t.cos()], 1)


class MehrkopfAchtung(nn.Module):
    """Selbst- oder Kreuzachtung.

    x        [B, T, C]  Anfragen
    quelle   [B, S, C]  Kodiererausgabe -> Kreuzachtung; None -> Selbstachtung
    kausal   jede Silbe sieht sich selbst und alles Frühere (auch im Speicher)
    speicher dict; Selbstachtung hängt an, Kreuzachtung rechnet k/v nur einmal je Aufnahme
    """

    def __init__(self, breite, koepfe):
        super().__init__()
        self.koepfe = koepfe
        self.anfrage = nn.Linear(breite, breite)
        self.schluessel = nn.Linear(breite, breite, bias=False)
        self.wert = nn.Linear(breite, breite)
        self.aus = nn.Linear(breite, breite)

    def forward(self, x, quelle=None, kausal=False, speicher=None):
        q = self.anfrage(x)
        if quelle is None:
            k, v = self.schluessel(x), self.wert(x)
            if speicher is not None:
                if self in speicher:
                    alt_k, alt_v = speicher[self]
                    k, v = torch.cat([alt_k, k], 1), torch.cat([alt_v, v], 1)
                speicher[self] = (k, v)
        elif speicher is not None and self in speicher:
            k, v = speicher[self]
        else:
            k, v = self.schluessel(quelle), self.wert(quelle)
            if speicher is not None:
                speicher[self] = (k, v)
        y, karte = self._achten(q, k, v, kausal and quelle is None)
        return self.aus(y), karte

    def _achten(self, q, k, v, kausal):
        B, T, C = q.shape
        S = k.shape[1]
        stauch = (C // self.koepfe) ** -0.25
        q = q.view(B, T, self.koepfe, -1).permute(0, 2, 1, 3) * stauch
        k = k.view(B, S, self.koepfe, -1).permute(0, 2, 3, 1) * stauch
        v = v.view(B, S, self.koepfe, -1).permute(0, 2, 1, 3)
        qk = (q @ k).float()
        if kausal:
            zeit = torch.arange(S - T, S, device=q.device)
            qk = qk.masked_fill(torch.arange(S, device=q.device)[None] > zeit[:, None], float("-inf"))
        w = F.softmax(qk, dim=-1).to(v.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(2), w.detach()


class Block(nn.Module):
    def __init__(self, breite, koepfe, kreuz=False):
        super().__init__()
        self.n1, self.selbst = nn.LayerNorm(breite), MehrkopfAchtung(breite, koepfe)
        self.kreuz = MehrkopfAchtung(breite, koepfe) if kreuz else None
        self.n2 = nn.LayerNorm(breite) if kreuz else None
        self.n3 = nn.LayerNorm(breite)
        self.mlp = nn.Sequential(nn.Linear(breite, 4 * breite), nn.GELU(), nn.Linear(4 * breite, breite))

    def forward(self, x, quelle=None, kausal=False, speicher=None):
        x = x + self.selbst(self.n1(x), kausal=kausal, speicher=speicher)[0]
        if self.kreuz is not None:
            x = x + self.kreuz(self.n2(x), quelle, speicher=speicher)[0]
        return x + self.mlp(self.n3(x))


class RufKodierer(nn.Module):
    """Mel-Bilder [B, baender, rahmen] -> [B, rahmen / 2, breite]"""

    def __init__(self, baender=40, breite=64, koepfe=4, tiefe=2, rahmen=100):
        super().__init__()
        self.c1 = nn.Conv1d(baender, breite, 3, padding=1)
        self.c2 = nn.Conv1d(breite, breite, 3, stride=2, padding=1)
        self.register_buffer("ort", sinuskurven(rahmen, breite))
        self.bloecke = nn.ModuleList(Block(breite, koepfe) for _ in range(tiefe))

    def forward(self, mel):
        x = F.gelu(self.c2(F.gelu(self.c1(mel)))).permute(0, 2, 1)
        x = x + self.ort[: x.shape[1]]
        for b in self.bloecke:
            x = b(x)
        return x
