"""Lector de etiquetas de semillas antiguas: decodificador con ventana y sumideros.

Cada cabeza tiene un logit aprendido («sumidero») que compite en el softmax pero
no aporta valor, de modo que una cabeza puede no mirar nada. La ventana W incluye
la propia posición: con W=3 la posición i ve i-2, i-1 e i.
"""
import torch
import torch.nn as nn


def ventana_causal(n, w, dispositivo=None):
    """True donde se PROHÍBE mirar."""
    i = torch.arange(n, device=dispositivo)[:, None]
    j = torch.arange(n, device=dispositivo)[None, :]
    return (j > i) | (i - j >= w)


class NormaRMS(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.peso = nn.Parameter(torch.ones(d))

    def forward(self, x):
        y = x.float()
        y = y * (y.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return y.to(x.dtype) * self.peso


class AtencionConSumidero(nn.Module):
    """x: [lote, largo, d]. Consultas agrupadas: ``h_q`` cabezas sobre ``h_kv`` pares clave/valor.

    La cabeza de consulta g*m+r (m = h_q // h_kv) usa el par g.
    """

    def __init__(self, d, h_q, h_kv, ventana):
        super().__init__()
        self.dc = d // h_q
        self.h_q, self.h_kv, self.ventana = h_q, h_kv, ventana
        self.qkv = nn.Linear(d, (h_q + 2 * h_kv) * self.dc)
        self.sumidero = nn.Parameter(torch.randn(h_q))
        self.salida = nn.Linear(h_q * self.dc, d)

    def forward(self, x):
        b, n, _ = x.shape
        m = self.h_q // self.h_kv
        todo = self.qkv(x)
        q, k, v = todo.split([self.h_q * self.dc, self.h_kv * self.dc, self.h_kv * self.dc], dim=-1)
        q = q.view(b, n, self.h_kv, m, self.dc)
        k = k.view(b, n, self.h_kv, self.dc)
        v = v.view(b, n, self.h_kv, self.dc)

        qk = torch.einsum("bigmd,bjgd->bgmij", q, k) * self.dc ** -0.5
        qk = qk.masked_fill(ventana_causal(n, self.ventana, x.device), float("-inf"))
        s = self.sumidero.view(1, self.h_kv, m, 1, 1).expand(b, -1, -1, n, 1)
        p = torch.cat([qk, s.to(qk.dtype)], dim=-1).softmax(dim=-1)
        p = p[..., :-1]  # la masa del sumidero se tira: las filas suman menos de uno a propósito
        y = torch.einsum("bgmij,bjgd->bigmd", p, v)
        return self.salida(y.reshape(b, n, -1))


class Bloque(nn.Module):
    def __init__(self, d=32, h_q=4, h_kv=2, ventana=8):
        super().__init__()
        self.n1, self.n2 = NormaRMS(d), NormaRMS(d)
        self.at = AtencionConSumidero(d, h_q, h_kv, ventana)
        self.sube, self.baja = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x = x + self.at(self.n1(x))
        return x + self.baja(torch.relu(self.sube(self.n2(x))) ** 2)


if __name__ == "__main__":
    print(Bloque()(torch.randn(2, 10, 32)).shape)
