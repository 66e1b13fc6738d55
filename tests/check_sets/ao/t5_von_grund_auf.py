"""T5 von Grund auf, eine Datei, Gewichte aus dem HF-state_dict.

Besonderheiten von T5, die man leicht vergisst:
  * keine Skalierung der Scores: 1/sqrt(d) steckt in der Initialisierung von q
  * relative Positionen als Bias pro Kopf, nur in der ersten Schicht gelernt
    und dann weitergereicht
  * RMSNorm ohne Mittelwert, keine Biases in den Linearen
"""
import math
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def eimer(rel, beidseitig, anzahl=32, max_abstand=128):
    """rel = Schluesselposition - Anfrageposition -> Nummer des Eimers."""
    nr = torch.zeros_like(rel)
    if beidseitig:
        anzahl //= 2
        nr = nr + (rel > 0).long() * anzahl
        rel = rel.abs()
    else:
        rel = (-rel).clamp(min=0)
    genau = anzahl // 2
    fern = genau + (torch.log(rel.clamp(min=1).float() / genau)
                    / math.log(max_abstand / genau) * (anzahl - genau)).long()
    fern = fern.clamp(max=anzahl - 1)
    return nr + torch.where(rel < genau, rel, fern)


class T5Aufmerksamkeit(nn.Module):
    def __init__(self, konf, dekoder=False, mit_bias=False):
        super().__init__()
        self.h, self.d = konf["num_heads"], konf["d_kv"]
        innen = self.h * self.d
        self.dekoder = dekoder
        self.q = nn.Linear(konf["d_model"], innen, bias=False)
        self.k = nn.Linear(konf["d_model"], innen, bias=False)
        self.v = nn.Linear(konf["d_model"], innen, bias=False)
        self.o = nn.Linear(innen, konf["d_model"], bias=False)
        if mit_bias:
            self.relative_attention_bias = nn.Embedding(32, self.h)

    def positions_bias(self, lq, lk):
        i = torch.arange(lq)[:, None] + (lk - lq)
        j = torch.arange(lk)[None, :]
        b = self.relative_attention_bias(eimer(j - i, not self.dekoder))
        return b.permute(2, 0, 1).unsqueeze(0)

    def teile(self, x):
        b, l, _ = x.shape
        return x.view(b, l, self.h, self.d).transpose(1, 2)

    def forward(self, x, speicher=None, maske=None, bias=None):
        """speicher: Ausgabe des Enkoders bei Kreuz-Aufmerksamkeit.
        maske: bool, broadcastbar auf [B, H, Lq, Lk], True = sichtbar.
        bias: Positionsbias einer frueheren Schicht oder None."""
        quelle = x if speicher is None else speicher
        q, k, v = self.teile(self.q(x)), self.teile(self.k(quelle)), self.teile(self.v(quelle))
        s = q @ k.transpose(-1, -2)
        if bias is None and hasattr(self, "relative_attention_bias"):
            bias = self.positions_bias(s.size(-2), s.size(-1))
        if bias is not None:
            s = s + bias
        if maske is not None:
            s = s.masked_fill(~maske, torch.finfo(s.dtype).min)
        p = torch.softmax(s.float(), dim=-1).type_as(s)
        y = (p @ v).transpose(1, 2).contiguous().view(x.size(0), x.size(1), -1)
        return self.o(y), bias


class Schicht(nn.Module):
    def __init__(self, konf, dekoder, erste):
        super().__init__()
        self.n1, self.n2, self.n3 = (RMSNorm(konf["d_model"]) for _ in range(3))
        self.selbst = T5Aufmerksamkeit(konf, dekoder, mit_bias=erste)
        self.kreuz = T5Aufmerksamkeit(konf, dekoder) if dekoder else None
        self.wi = nn.Linear(konf["d_model"], konf["d_ff"], bias=False)
        self.wo = nn.Linear(konf["d_ff"], konf["d_model"], bias=False)

    def forward(self, x, maske, bias, speicher=None, s_maske=None):
        y, bias = self.selbst(self.n1(x), maske=maske, bias=bias)
        x = x + y
        if self.kreuz is not None:
            x = x + self.kreuz(self.n2(x), speicher, s_maske)[0]
        return x + self.wo(torch.relu(self.wi(self.n3(x)))), bias


class T5(nn.Module):
    def __init__(self, konf):
        super().__init__()
        self.emb = nn.Embedding(konf["vocab_size"], konf["d_model"])
        n = konf["num_layers"]
        self.enk = nn.ModuleList(Schicht(konf, False, i == 0) for i in range(n))
        self.dek = nn.ModuleList(Schicht(konf, True, i == 0) for i in range(n))
        self.ne, self.nd = RMSNorm(konf["d_model"]), RMSNorm(konf["d_model"])

    def forward(self, ein, aus, pad=0):
        em = (ein != pad)[:, None, None, :]
        L = aus.size(1)
        dm = torch.ones(L, L, dtype=torch.bool).tril()[None, None]
        x, b = self.emb(ein), None
        for s in self.enk:
            x, b = s(x, em, b)
        x = self.ne(x)
        y, b = self.emb(aus), None
        for s in self.dek:
            y, b = s(y, dm, b, x, em)
        y = self.nd(y) * self.emb.embedding_dim ** -0.5
        return y @ self.emb.weight.T
