"""Attenzione tra le righe di un ordine di magazzino."""
import torch
from torch import nn


class AttenzioneOrdini(nn.Module):
    """
    righe   : (lotti, n, dim)
    vuote   : (lotti, n) bool, True = riga vuota, da escludere come fonte;
              ogni ordine ha almeno una riga piena
    ritorno : uscita (lotti, n, dim) e pesi (lotti, teste, n, n); per ogni
              riga che legge, i pesi sulle righe lette sommano a uno.

    Prodotto scalare scalato (1 / radice della larghezza di testa), non causale.
    """

    def __init__(self, dim=24, teste=3):
        super().__init__()
        self.teste = teste
        self.larghezza = dim // teste
        self.scala = self.larghezza ** -0.5
        self.entrata = nn.Linear(dim, 3 * dim)
        self.uscita = nn.Linear(dim, dim)

    def forward(self, righe, vuote=None):
        lotti, n, dim = righe.shape
        q, k, v = self.entrata(righe).split(dim, dim=-1)
        q = q.view(lotti, n, self.teste, self.larghezza).transpose(1, 2)
        k = k.view(lotti, n, self.teste, self.larghezza).transpose(1, 2)
        v = v.view(lotti, n, self.teste, self.larghezza).transpose(1, 2)

        punti = torch.matmul(q, k.transpose(2, 3)) / self.scala
        if vuote is not None:
            punti.masked_fill(vuote[:, None, None, :], float("-inf"))
        pesi = torch.softmax(punti, dim=1)

        letto = torch.matmul(pesi, v).transpose(1, 2).reshape(lotti, n, dim)
        return self.uscita(letto), pesi
