"""Cartas de alta: resumen de la historia clínica con atención aditiva y cobertura.

Puntuación de Bahdanau con término de cobertura (See et al. 2017):

    e_i = v . tanh(W_h h_i + W_s s_t + w_c c_i + b),   c = suma de las atenciones anteriores
"""
import torch
from torch import nn


class AtencionCobertura(nn.Module):
    """estado [B, D]; memoria [B, N, D]; relleno [B, N] (True = relleno, nunca toda la fila);
    cobertura [B, N] de los pasos anteriores (None = primer paso).

    Devuelve contexto [B, D], atención [B, N] y la cobertura nueva (la recibida no se toca).
    """

    def __init__(self, dim, ancho):
        super().__init__()
        self.W_h = nn.Linear(dim, ancho, bias=False)
        self.W_s = nn.Linear(dim, ancho)
        self.w_c = nn.Linear(1, ancho, bias=False)
        self.v = nn.Linear(ancho, 1, bias=False)

    def forward(self, estado, memoria, relleno, cobertura=None):
        if cobertura is None:
            cobertura = memoria.new_zeros(memoria.shape[:2])
        r = self.W_h(memoria) + self.W_s(estado)[:, None, :] + self.w_c(cobertura[..., None])
        e = self.v(torch.tanh(r)).squeeze(-1)
        e = e.masked_fill(relleno, float("-inf"))
        a = torch.softmax(e, dim=-1)
        contexto = torch.einsum("bn,bnd->bd", a, memoria)
        return contexto, a, cobertura + a


class Resumidor(nn.Module):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.enc = nn.GRU(dim, dim, batch_first=True)
        self.dec = nn.GRUCell(2 * dim, dim)
        self.ate = AtencionCobertura(dim, dim)
        self.copia = nn.Linear(3 * dim, 1)
        self.sal = nn.Linear(2 * dim, vocab)

    def forward(self, fuente, objetivo):
        mem, h = self.enc(self.emb(fuente))
        h, relleno = h[0], fuente == 0
        ctx, cob, perdida, probs = torch.zeros_like(h), None, 0.0, []
        for t in range(objetivo.shape[1]):
            x = self.emb(objetivo[:, t])
            h = self.dec(torch.cat([x, ctx], 1), h)
            previa = torch.zeros_like(mem[..., 0]) if cob is None else cob
            ctx, a, cob = self.ate(h, mem, relleno, cob)
            perdida = perdida + torch.minimum(a, previa).sum(1).mean()
            g = torch.sigmoid(self.copia(torch.cat([x, h, ctx], 1)))
            p = g * self.sal(torch.cat([h, ctx], 1)).softmax(-1)
            probs.append(p.scatter_add(1, fuente, (1 - g) * a))
        return torch.stack(probs, 1), perdida
