"""SASRec para la tienda: recomendación secuencial (Kang y McAuley 2018).

Historial: LongTensor [lote, largo]; el 0 es relleno y va a la izquierda, como en el código original.
Los pasos de relleno se ponen en cero y, como en la versión de pmixer, no se ocultan como claves.
"""
import torch
import torch.nn as nn


class RedPuntual(nn.Module):
    def __init__(self, dim, p):
        super().__init__()
        self.c1 = nn.Conv1d(dim, dim, 1)
        self.c2 = nn.Conv1d(dim, dim, 1)
        self.d = nn.Dropout(p)

    def forward(self, x):
        y = self.c2(torch.relu(self.c1(x.transpose(1, 2)))).transpose(1, 2)
        return x + self.d(y)


class BloqueSecuencia(nn.Module):
    """Auto-atención causal sobre la historia de cada usuario; x es [lote, largo, dim]."""

    def __init__(self, dim, cabezas, p):
        super().__init__()
        self.norma_a = nn.LayerNorm(dim, eps=1e-8)
        self.norma_f = nn.LayerNorm(dim, eps=1e-8)
        self.atencion = nn.MultiheadAttention(dim, cabezas, dropout=p)
        self.red = RedPuntual(dim, p)

    def forward(self, x, relleno):
        largo = x.shape[0]
        futuro = torch.ones(largo, largo, dtype=torch.bool, device=x.device).triu(1)
        q = self.norma_a(x)
        y, _ = self.atencion(q, x, x, attn_mask=futuro, need_weights=False)
        x = q + y
        x = self.red(self.norma_f(x))
        return x * ~relleno.unsqueeze(-1)


class SASRec(nn.Module):
    def __init__(self, n_items, dim=50, largo_max=200, bloques=2, cabezas=1, p=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(largo_max, dim)
        self.drop = nn.Dropout(p)
        self.bloques = nn.ModuleList(BloqueSecuencia(dim, cabezas, p) for _ in range(bloques))
        self.norma = nn.LayerNorm(dim, eps=1e-8)

    def codifica(self, historial):
        relleno = historial == 0
        x = self.items(historial) * self.items.embedding_dim ** 0.5
        x = x + self.pos(torch.arange(historial.shape[1], device=historial.device))
        x = self.drop(x) * ~relleno.unsqueeze(-1)
        for b in self.bloques:
            x = b(x, relleno)
        return self.norma(x)

    def forward(self, historial, positivos, negativos):
        h = self.codifica(historial)
        return (h * self.items(positivos)).sum(-1), (h * self.items(negativos)).sum(-1)

    @torch.no_grad()
    def puntua(self, historial, candidatos):
        ultimo = self.codifica(historial)[:, -1]
        return (self.items(candidatos) @ ultimo.unsqueeze(-1)).squeeze(-1)
