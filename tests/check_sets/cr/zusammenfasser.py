import torch
from torch import nn


class ZeigerAufmerksamkeit(nn.Module):
    """Aufmerksamkeit eines Pointer-Generator-Netzes mit Coverage (See et al. 2017).

    e_t(i) = v . tanh(W_h h_i + W_s s_t + w_c c_t(i) + b), c_t = Summe der frueheren Gewichte.
    """

    def __init__(self, verdeckt, kodierer, intern):
        super().__init__()
        self.W_h = nn.Linear(kodierer, intern, bias=False)
        self.W_s = nn.Linear(verdeckt, intern)
        self.w_c = nn.Linear(1, intern, bias=False)
        self.v = nn.Linear(intern, 1, bias=False)
        self.p_gen = nn.Linear(kodierer + verdeckt, 1)

    def forward(self, zustand, quelle, gueltig, abdeckung, vokabel, kennungen):
        """
        zustand   (B, verdeckt)    Zustand des Dekodierers
        quelle    (B, T, kodierer) Ausgaben des Kodierers
        gueltig   (B, T) bool      True = echtes Wort, False = Auffuellung (mind. ein True je Zeile)
        abdeckung (B, T)           c_t, im ersten Schritt Null
        vokabel   (B, V)           Verteilung des Generators, summiert zu 1
        kennungen (B, T) long      Kennung jedes Quellwortes, < V
        Ergebnis: Mischverteilung (B, V), Gewichte (B, T), neue Abdeckung, Coverage-Verlust (B,)
        """
        merkmale = self.W_h(quelle) + self.W_s(zustand)[:, None] + self.w_c(abdeckung[..., None])
        e = self.v(merkmale.tanh())[..., 0]
        a = e.masked_fill(gueltig.logical_not(), -torch.inf).softmax(-1)
        kontext = (a[..., None] * quelle).sum(1)
        g = torch.sigmoid(self.p_gen(torch.cat((kontext, zustand), -1)))
        misch = (g * vokabel).scatter_add(1, kennungen, (1 - g) * a)
        verlust = torch.minimum(a, abdeckung).sum(-1)
        return misch, a, abdeckung + a, verlust
