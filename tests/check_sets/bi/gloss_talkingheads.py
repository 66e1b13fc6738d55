"""Glosado de lengua de signos: de puntos clave a glosas.

Atención de "cabezas parlantes" (Shazeer et al. 2020): se mezclan las cabezas antes
del softmax (P_l) y después (P_w). La máscara se pone DESPUÉS de la primera mezcla,
ya que -inf por un peso cero o negativo estropearía la fila.
"""
import torch
import torch.nn as nn

ARTICULACIONES = 75   # manos (2x21) + cuerpo (33)


class CabezasParlantes(nn.Module):
    """x: (lote, fotogramas, ancho).
    visible: (lote, fotogramas) bool; False = la mano quedó fuera del cuadro, nadie
    atiende a ese fotograma. Si un vídeo no tiene ninguno visible, salen ceros
    (más el sesgo de la proyección final).
    """

    def __init__(self, ancho, cabezas):
        super().__init__()
        self.h = cabezas
        self.dk = ancho // cabezas
        self.qkv = nn.Linear(ancho, ancho * 3, bias=False)
        self.P_l = nn.Parameter(torch.eye(cabezas) + 0.1 * torch.randn(cabezas, cabezas))
        self.P_w = nn.Parameter(torch.eye(cabezas) + 0.1 * torch.randn(cabezas, cabezas))
        self.salida = nn.Linear(ancho, ancho)

    def forward(self, x, visible=None):
        b, t, a = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, self.dk).permute(2, 0, 3, 1, 4)
        q = q / self.dk ** 0.5
        j = torch.einsum("bhid,bhjd,hg->bgij", q, k, self.P_l)
        if visible is not None:
            oculto = ~visible[:, None, None, :]
            j = j.masked_fill(oculto, float("-inf"))
            j = j.masked_fill(oculto.all(-1, keepdim=True), 0.0)
        w = j.softmax(dim=-1)
        if visible is not None:
            w = w * visible[:, None, None, :]
        w = torch.einsum("bgij,gm->bmij", w, self.P_w)
        y = torch.einsum("bmij,bmjd->bimd", w, v)
        return self.salida(y.reshape(b, t, a))


class Glosador(nn.Module):
    def __init__(self, vocab, ancho=96, cabezas=6, capas=2):
        super().__init__()
        self.entrada = nn.Linear(ARTICULACIONES * 3, ancho)
        self.conv = nn.Conv1d(ancho, ancho, 3, padding=1, groups=ancho)
        self.capas = nn.ModuleList(CabezasParlantes(ancho, cabezas) for _ in range(capas))
        self.normas = nn.ModuleList(nn.LayerNorm(ancho) for _ in range(capas))
        self.ctc = nn.Linear(ancho, vocab + 1)

    def forward(self, puntos, visible):
        h = self.entrada(puntos.flatten(2))
        h = h + self.conv(h.transpose(1, 2)).transpose(1, 2)
        for c, n in zip(self.capas, self.normas):
            h = h + c(n(h), visible)
        return self.ctc(h).log_softmax(-1)


def colapsar(ruta, blanco=0):
    """Decodificación voraz de CTC."""
    fin, previo = [], blanco
    for s in ruta.tolist():
        if s != blanco and s != previo:
            fin.append(s)
        previo = s
    return fin
