"""Attenzione su grafo (lista di archi) per la rete degli acquedotti."""
import torch
from torch import nn
import torch.nn.functional as F


class Vicini(nn.Module):
    """Ogni nodo raccoglie i messaggi dei nodi da cui riceve un arco.

    x: (N, n_in); archi: (2, E) con archi[0] = origine, archi[1] = destinazione.
    I pesi sugli archi entranti di un nodo sommano a 1, per ogni testa.
    Un nodo senza archi entranti riceve il vettore nullo.
    """

    def __init__(self, n_in, n_out, teste=2, pendenza=0.2):
        super().__init__()
        self.teste, self.n_out, self.pendenza = teste, n_out, pendenza
        self.W = nn.Linear(n_in, teste * n_out, bias=False)
        self.a_orig = nn.Parameter(torch.randn(teste, n_out) * 0.3)
        self.a_dest = nn.Parameter(torch.randn(teste, n_out) * 0.3)

    def forward(self, x, archi):
        n = x.shape[0]
        orig, dest = archi[0], archi[1]
        h = self.W(x).view(n, self.teste, self.n_out)
        s_o = (h * self.a_orig).sum(-1)
        s_d = (h * self.a_dest).sum(-1)
        e = F.leaky_relu(s_o[orig] + s_d[dest], self.pendenza)          # (E, teste)

        indice = dest[:, None].expand_as(e)
        massimo = torch.full((n, self.teste), float("-inf"), dtype=e.dtype, device=e.device)
        massimo = massimo.scatter_reduce(0, indice, e.detach(), reduce="amax")
        num = torch.exp(e - massimo[dest])
        den = torch.zeros(n, self.teste, dtype=e.dtype, device=e.device).index_add(0, dest, num)
        alfa = num / den[dest]

        messaggi = alfa[..., None] * h[orig]
        fuori = torch.zeros_like(h).index_add(0, dest, messaggi)
        return fuori.reshape(n, self.teste * self.n_out)
