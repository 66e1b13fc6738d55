"""Rete di pendii: propagazione del pericolo di valanghe (GATv2).

I nodi sono celle di versante, gli archi vanno da monte (sorgente) a valle
(destinazione). Niente torch_geometric: solo index_add / scatter_reduce.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

GRADI = {1: "debole", 2: "moderato", 3: "marcato", 4: "forte", 5: "molto forte"}


def softmax_per_destinazione(e, dst, n):
    """e [A, teste], dst [A] -> pesi che sommano a 1 fra gli archi di ogni dst."""
    idx = dst[:, None].expand_as(e)
    m = torch.full((n, e.shape[1]), float("-inf"), dtype=e.dtype, device=e.device)
    m = m.scatter_reduce(0, idx, e, reduce="amax", include_self=True)
    p = (e - m[dst]).exp()
    z = torch.zeros(n, e.shape[1], dtype=e.dtype, device=e.device).index_add(0, dst, p)
    return p / z[dst]


class VersanteGAT(nn.Module):
    """
    forward(x, archi):
        x     [N, d_in]
        archi [2, A] interi: riga 0 = sorgente (monte), riga 1 = destinazione
    Le auto-connessioni vengono aggiunte qui. Uscita [N, teste * d_out].

    Punteggio GATv2: a . LeakyReLU(W_s x_sorg + W_d x_dest); nel GAT additivo
    la scala 1/sqrt(d) non esiste.
    """

    def __init__(self, d_in=6, d_out=8, teste=3, pendenza_neg=0.2):
        super().__init__()
        self.teste, self.d = teste, d_out
        self.W_s = nn.Linear(d_in, teste * d_out)
        self.W_d = nn.Linear(d_in, teste * d_out)
        self.a = nn.Parameter(torch.empty(teste, d_out))
        nn.init.xavier_uniform_(self.a)
        self.pendenza_neg = pendenza_neg

    def forward(self, x, archi):
        N = x.shape[0]
        anelli = torch.arange(N, device=x.device).expand(2, N)
        src, dst = torch.cat([archi, anelli], dim=1)
        xs = self.W_s(x).view(N, self.teste, self.d)
        xd = self.W_d(x).view(N, self.teste, self.d)
        h = F.leaky_relu(xs[src] + xd[dst], self.pendenza_neg)
        e = (h * self.a).sum(-1)                                   # [A+N, teste]
        alfa = softmax_per_destinazione(e, dst, N)
        fuori = torch.zeros_like(xs).index_add(0, dst, alfa[..., None] * xs[src])
        return fuori.flatten(1)


class BollettinoValanghe(nn.Module):
    def __init__(self, d_in=6):
        super().__init__()
        self.g1 = VersanteGAT(d_in)
        self.g2 = VersanteGAT(24)
        self.fine = nn.Linear(24, len(GRADI))

    def forward(self, x, archi):
        h = F.elu(self.g1(x, archi))
        h = F.elu(self.g2(h, archi))
        return self.fine(h)

    @torch.no_grad()
    def leggi(self, x, archi):
        g = self(x, archi).argmax(-1) + 1
        return [GRADI[int(i)] for i in g]
