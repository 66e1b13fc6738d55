"""End-To-End Memory Networks (Sukhbaatar et al. 2015) per bAbI.

Legatura "adjacent" (sez. 2.2):  A^(k+1) = C^k,  B = A^1,  W^T = C^K.
Codifica di posizione (sez. 4.1):  m_i = sum_j l_j * A x_ij,
    l_kj = (1 - j/J) - (k/d)(1 - 2j/J),   j = 1..J parole, k = 1..d
Codifica temporale T_A, T_C: una riga per memoria, la frase più recente per prima.

    p_i = softmax(u^T m_i)   (prodotto interno semplice, come nel paper)
    o   = sum_i p_i c_i ,    u <- u + o
"""
import torch
from torch import nn


def position_encoding(J, d):
    j = torch.arange(1, J + 1).float()[:, None]
    k = torch.arange(1, d + 1).float()[None, :]
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)          # (J, d)


class MemN2N(nn.Module):
    """storie (B, S, J) long: S frasi di J parole, la più recente all'indice 0,
    parola 0 = riempimento; una frase tutta di zeri è una memoria vuota e non si legge
    (ogni storia ha almeno una frase). domanda (B, Jq) long, anch'essa con gli zeri.
    Restituisce i logit sul vocabolario (B, V) e i pesi di ogni salto [(B, S)] * K.
    """

    def __init__(self, V, d=20, K=3, S=10, J=7, Jq=7):
        super().__init__()
        self.K = K
        # tavole[0] = A^1, tavole[k] = C^k = A^(k+1)
        self.tavole = nn.ModuleList(nn.Embedding(V, d, padding_idx=0) for _ in range(K + 1))
        self.tempo = nn.ParameterList(nn.Parameter(torch.randn(S, d) * 0.1) for _ in range(K + 1))
        for e in self.tavole:
            nn.init.normal_(e.weight, std=0.1)
            nn.init.zeros_(e.weight.data[0])
        self.register_buffer("pe", position_encoding(J, d))
        self.register_buffer("pe_q", position_encoding(Jq, d))

    def _frasi(self, livello, storie):
        S = storie.size(1)
        return (self.tavole[livello](storie) * self.pe).sum(2) + self.tempo[livello][:S]

    def forward(self, storie, domanda):
        vuota = (storie == 0).all(dim=2)
        u = (self.tavole[0](domanda) * self.pe_q).sum(1)
        pesi = []
        m = self._frasi(0, storie)
        for k in range(1, self.K + 1):
            c = self._frasi(k, storie)
            p = torch.einsum("bd,bsd->bs", u, m)
            p = p.masked_fill(vuota, float("-inf")).softmax(dim=-1)
            u = u + torch.einsum("bs,bsd->bd", p, c)
            pesi.append(p)
            m = c                                            # adjacent: A^(k+1) = C^k
        return u @ self.tavole[self.K].weight.t(), pesi
