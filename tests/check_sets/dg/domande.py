import math

import torch
import torch.nn as nn


class DomandaSuTesto(nn.Module):
    """Lettura: ogni parola della domanda cerca nel testo.

    domanda (B, Q, D), testo (B, T, D), maschera (B, T): 1 = parola, 0 = riempimento
    """

    def __init__(self, dim=32):
        super().__init__()
        self.dq = nn.Linear(dim, dim)
        self.dk = nn.Linear(dim, dim)
        self.dv = nn.Linear(dim, dim)
        self.fondi = nn.Linear(4 * dim, dim)

    def cerca(self, domanda, testo, maschera):
        q, k, v = self.dq(domanda), self.dk(testo), self.dv(testo)
        punti = q @ k.transpose(1, 2) / math.sqrt(k.shape[-1])
        pesi = torch.softmax(punti, dim=-1)
        pesi = pesi * maschera[:, None, :].to(pesi.dtype)
        return pesi @ v

    def forward(self, domanda, testo, maschera):
        c = self.cerca(domanda, testo, maschera)
        insieme = torch.cat([domanda, c, domanda * c, domanda - c], dim=-1)
        return torch.relu(self.fondi(insieme))
