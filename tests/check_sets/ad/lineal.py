"""Atencion lineal (Katharopoulos et al.) para secuencias largas."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rasgo(x):
    return F.elu(x) + 1


class AtencionLineal(nn.Module):
    """phi(q) (sum phi(k) v^T) / (phi(q) . sum phi(k)), con phi = elu + 1

    x        (lote, largo, canal)
    presente (lote, largo) bool, True donde hay dato; None = todo presente
    causal   si True cada paso usa solo los pasos hasta el mismo
    """

    def __init__(self, canal, cabezas=4, causal=False):
        super().__init__()
        self.cabezas, self.causal = cabezas, causal
        self.entrada = nn.Linear(canal, 3 * canal, bias=False)
        self.salida = nn.Linear(canal, canal)

    def forward(self, x, presente=None):
        n, l, c = x.shape
        q, k, v = self.entrada(x).reshape(n, l, 3, self.cabezas, -1).unbind(2)
        q, k = rasgo(q), rasgo(k)
        if presente is not None:
            k = k * presente[:, :, None, None]

        if self.causal:
            memoria = torch.einsum("nlhd,nlhm->nlhdm", k, v).cumsum(1)
            total = k.cumsum(1)
            arriba = torch.einsum("nlhd,nlhdm->nlhm", q, memoria)
            abajo = (q * total).sum(-1, keepdim=True)
        else:
            memoria = torch.einsum("nlhd,nlhm->nhdm", k, v)
            arriba = torch.einsum("nlhd,nhdm->nlhm", q, memoria)
            abajo = torch.einsum("nlhd,nhd->nlh", q, k.sum(1))[..., None]

        y = arriba / torch.where(abajo > 0, abajo, torch.ones_like(abajo))
        return self.salida(y.reshape(n, l, c))
