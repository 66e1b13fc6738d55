"""Pointer-Generator (See, Liu, Manning 2017), ein Schritt des Decoders.

schritt(wort, zustand, quelle, quelle_ids, maske, deckung)
    wort        (B,)        ids des letzten Wortes
    zustand     (B, hid)    GRU-Zustand
    quelle      (B, S, hid) Encoderzustände
    quelle_ids  (B, S)      ids der Quellwörter im erweiterten Wortschatz (V + oov)
    maske       (B, S)      1.0 = echtes Wort, 0.0 = Füllwort (mindestens eine 1 je Satz)
    deckung     (B, S)      Summe aller früheren Gewichte (coverage)

Rückgabe: Verteilung (B, V + oov), Zeilensumme 1; neuer Zustand; Gewichte (B, S); neue Deckung.
Füllwörter haben das Gewicht 0, die Gewichte der echten Wörter ergeben zusammen 1.
"""
import torch
import torch.nn as nn


class Kopierer(nn.Module):
    def __init__(self, wortschatz, emb, hid):
        super().__init__()
        self.V = wortschatz
        self.emb = nn.Embedding(wortschatz, emb)
        self.gru = nn.GRUCell(emb, hid)
        self.W_h = nn.Linear(hid, hid, bias=False)
        self.W_s = nn.Linear(hid, hid)
        self.w_c = nn.Linear(1, hid, bias=False)
        self.v = nn.Linear(hid, 1, bias=False)
        self.aus = nn.Linear(2 * hid, wortschatz)
        self.p_gen = nn.Linear(2 * hid + emb, 1)

    def gewichte(self, s, quelle, maske, deckung):
        merkmal = self.W_h(quelle) + self.W_s(s)[:, None] + self.w_c(deckung[..., None])
        e = self.v(merkmal.tanh()).squeeze(-1)
        a = torch.softmax(e, dim=1) * maske
        return a / a.sum(dim=1, keepdim=True)          # wieder auf 1 bringen

    def schritt(self, wort, zustand, quelle, quelle_ids, maske, deckung, oov=0):
        # unbekannte Wörter (id >= V) gehen als id 0 in die Einbettung
        x = self.emb(torch.where(wort < self.V, wort, torch.zeros_like(wort)))
        s = self.gru(x, zustand)
        a = self.gewichte(s, quelle, maske, deckung)
        k = (a.unsqueeze(2) * quelle).sum(1)
        p_voc = torch.softmax(self.aus(torch.cat([s, k], 1)), dim=1)
        g = torch.sigmoid(self.p_gen(torch.cat([k, s, x], 1)))
        p = torch.cat([g * p_voc, p_voc.new_zeros(p_voc.size(0), oov)], 1)
        p = p.scatter_add(1, quelle_ids, (1 - g) * a)
        return p, s, a, deckung + a
