import torch
from torch import nn


class CelluleDictee(nn.Module):
    """Un pas du décodeur de dictée vocale (attention additive à la Bahdanau).

        e_j = v . tanh(W s + U h_j),   a = softmax_j(e),   c = somme_j a_j h_j
        s'  = GRU([y ; c], s)

    y (B, emb) : lettre précédente ; s (B, dim) : état ; trames (B, T, enc) ;
    vide (B, T) booléen, vrai là où la trame est du remplissage (jamais toutes).
    Rend le nouvel état et les poids (B, T).
    """

    def __init__(self, emb, dim, enc, att=24):
        super().__init__()
        self.W = nn.Linear(dim, att, bias=False)
        self.U = nn.Linear(enc, att)
        self.v = nn.Linear(att, 1, bias=False)
        self.gru = nn.GRUCell(emb + enc, dim)

    def poids(self, s, trames, vide):
        somme = self.W(s).unsqueeze(1) + self.U(trames)
        e = self.v(somme).squeeze(2)
        if vide is not None:
            e = e.masked_fill(vide, float("-inf"))
        return torch.softmax(e, dim=1)

    def forward(self, y, s, trames, vide=None):
        a = self.poids(s, trames, vide)
        c = torch.bmm(a.unsqueeze(1), trames).squeeze(1)
        s = self.gru(torch.cat([y, c], dim=1), s)
        return s, a
