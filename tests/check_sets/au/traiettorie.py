# Predizione di traiettorie pedonali: ogni agente guarda i vicini presenti nella scena.
import torch
from torch import nn


def entro_raggio(pos, presente, raggio):
    """pos [S, A, 2], presente [S, A] bool -> vicini [S, A, A]: True se i puo' guardare j."""
    dist = torch.cdist(pos, pos)
    vicini = (dist <= raggio) & presente[:, None, :]
    io = torch.eye(pos.shape[1], dtype=torch.bool, device=pos.device)
    return vicini & ~io


class AttenzioneSociale(nn.Module):
    """
    Attenzione fra agenti con lo spostamento relativo nella chiave e nel valore.
    Un agente senza alcun vicino riceve contesto zero.
    """

    def __init__(self, dim, teste=2):
        super().__init__()
        self.teste = teste
        self.d = dim // teste
        self.dom = nn.Linear(dim, dim, bias=False)
        self.chi = nn.Linear(dim, dim, bias=False)
        self.val = nn.Linear(dim, dim, bias=False)
        self.rel = nn.Linear(2, dim)
        self.usc = nn.Linear(dim, dim, bias=False)

    def forward(self, h, pos, vicini):
        S, A, _ = h.shape
        delta = self.rel(pos[:, None, :, :] - pos[:, :, None, :])          # [S, i, j, dim]
        q = self.dom(h).reshape(S, A, 1, self.teste, self.d)
        k = (self.chi(h)[:, None] + delta).reshape(S, A, A, self.teste, self.d)
        v = (self.val(h)[:, None] + delta).reshape(S, A, A, self.teste, self.d)

        e = (q * k).sum(-1) / self.d ** 0.5                                # [S, i, j, teste]
        m = vicini.unsqueeze(-1)
        e = e.masked_fill(~m, float("-inf"))
        solo = ~vicini.any(dim=2)                                          # [S, i]
        e = e.masked_fill(solo[:, :, None, None], 0.0)
        p = torch.softmax(e, dim=2).masked_fill(~m, 0.0)
        ctx = (p.unsqueeze(-1) * v).sum(dim=2).reshape(S, A, -1)
        return self.usc(ctx)


class Predittore(nn.Module):
    def __init__(self, dim=32, passi=12, raggio=5.0):
        super().__init__()
        self.passi = passi
        self.raggio = raggio
        self.cella = nn.GRUCell(2 + dim, dim)
        self.sociale = AttenzioneSociale(dim)
        self.testa = nn.Linear(dim, 2)
        self.dim = dim

    def forward(self, storia, presente):
        """storia [S, T, A, 2] posizioni osservate; restituisce [S, passi, A, 2]."""
        S, T, A, _ = storia.shape
        h = storia.new_zeros(S, A, self.dim)
        pos = storia[:, 0]
        vel = torch.zeros_like(pos)
        fuori = []
        for t in range(1, T + self.passi):
            if t < T:
                vel = storia[:, t] - pos
                pos = storia[:, t]
            else:
                vel = self.testa(h)
                pos = pos + vel
                fuori.append(pos)
            ctx = self.sociale(h, pos, entro_raggio(pos, presente, self.raggio))
            x = torch.cat([vel, ctx], -1)
            h = self.cella(x.flatten(0, 1), h.flatten(0, 1)).view(S, A, -1)
        return torch.stack(fuori, 1)
