"""Quechua (runasimi) -> castellano, decodificador recurrente con atención.

Un paso por palabra.  Atención de tipo Bahdanau sobre los morfemas del lado
quechua y vector atencional al estilo de Luong:

    e_j = v . tanh(W_h h_j + W_s s + b)
    a   = softmax(e)      (sólo morfemas reales)
    c   = sum_j a_j h_j
    s~  = tanh(W_c [c ; s])

Notas de los sufijos: -kuna (plural), -manta (ablativo), -pas (aditivo).
"""
import torch
import torch.nn as nn

SUFIJOS = ["kuna", "manta", "pas", "chu", "mi", "si", "wan", "paq", "ta", "qa"]


def segmentar(palabra):
    """Separa sufijos conocidos desde el final (muy ingenuo)."""
    partes = []
    cambio = True
    while cambio:
        cambio = False
        for s in SUFIJOS:
            if palabra.endswith(s) and len(palabra) > len(s) + 2:
                partes.insert(0, "-" + s)
                palabra, cambio = palabra[: -len(s)], True
                break
    return [palabra] + partes


class AtencionMorfemas(nn.Module):
    """
    s       : [B, S]       estado del decodificador
    H       : [B, N, E]    estados del codificador (morfemas)
    real    : [B, N]       1 = morfema, 0 = relleno
    return  : (s_til [B, S], a [B, N])
    """

    def __init__(self, E=20, S=24, A=16):
        super().__init__()
        self.W_h = nn.Linear(E, A, bias=False)
        self.W_s = nn.Linear(S, A)
        self.v = nn.Linear(A, 1, bias=False)
        self.W_c = nn.Linear(E + S, S, bias=False)

    def forward(self, s, H, real=None):
        z = self.W_h(H) + self.W_s(s).unsqueeze(1)
        e = self.v(z).squeeze(-1)
        if real is not None:
            e = e * real.to(e.dtype)
        a = torch.softmax(e, dim=-1)
        c = torch.einsum("bn,bne->be", a, H)
        s_til = self.W_c(torch.cat([c, s], dim=-1))
        return s_til, a


class Traductor(nn.Module):
    def __init__(self, voc_q, voc_c, E=20, S=24):
        super().__init__()
        self.emb_q = nn.Embedding(voc_q, E, padding_idx=0)
        self.emb_c = nn.Embedding(voc_c, S)
        self.cod = nn.GRU(E, E // 2, bidirectional=True, batch_first=True)
        self.cel = nn.GRUCell(2 * S, S)
        self.at = AtencionMorfemas(E, S)
        self.fin = nn.Linear(S, voc_c)

    def forward(self, quechua, castellano):
        H, _ = self.cod(self.emb_q(quechua))
        real = (quechua != 0).long()
        B = quechua.shape[0]
        s = til = H.new_zeros(B, self.cel.hidden_size)
        sal = []
        for t in range(castellano.shape[1]):
            s = self.cel(torch.cat([self.emb_c(castellano[:, t]), til], -1), s)
            til, _ = self.at(s, H, real)
            sal.append(self.fin(til))
        return torch.stack(sal, 1)
