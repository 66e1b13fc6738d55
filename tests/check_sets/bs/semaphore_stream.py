"""Télégraphe Chappe : prédire le signal suivant d'une dépêche sans fin.

Mémoire glissante à la StreamingLLM : on garde pour toujours les `puits` premiers signaux
(attention sinks) et les `fenetre` plus récents, le courant compris ; le reste est oublié.
Les positions rotatives sont celles *dans la mémoire* et non celles de la dépêche : on range
donc les clefs sans rotation et on tourne tout à chaque pas.  C'est voulu (voir l'article,
§3.2) : le modèle ne voit jamais une distance plus grande que la mémoire.
"""
import collections

import torch
import torch.nn as nn

N_SIGNAUX = 92


def rotation(x, places):
    m = x.shape[-1] // 2
    freq = 1.0 / 10000 ** (torch.arange(m, dtype=x.dtype) / m)
    ang = places.to(x.dtype)[:, None] * freq
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], -1)


class Poste(nn.Module):
    """Attention d'un poste.  Un appel = un signal.  La sortie est filtrée par une porte
    sigmoïde qui dépend de l'entrée (gated attention)."""

    def __init__(self, dim=32, tetes=4, puits=2, fenetre=6):
        super().__init__()
        self.tetes, self.puits, self.fenetre = tetes, puits, fenetre
        self.dt = dim // tetes
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.porte = nn.Linear(dim, dim)
        self.sortie = nn.Linear(dim, dim)
        self.oublier()

    def oublier(self):
        self.debut = []
        self.recent = collections.deque(maxlen=self.fenetre)

    def _ranger(self, paire):
        if len(self.debut) < self.puits:
            self.debut.append(paire)
        else:
            self.recent.append(paire)

    def forward(self, x):
        """x : [lot, dim] -> [lot, dim]"""
        lot = x.shape[0]
        q, k, v = (f(x).view(lot, self.tetes, self.dt) for f in (self.q, self.k, self.v))
        self._ranger((k, v))
        memoire = self.debut + list(self.recent)
        ks = torch.stack([p[0] for p in memoire], dim=2)          # [lot, tetes, n, dt]
        vs = torch.stack([p[1] for p in memoire], dim=2)
        n = len(memoire)
        ks = rotation(ks, torch.arange(n))
        q = rotation(q[:, :, None], torch.tensor([n - 1]))
        s = (q * ks).sum(-1) / self.dt ** 0.5                     # [lot, tetes, n]
        a = torch.softmax(s, dim=-1)
        y = (a[..., None] * vs).sum(2).reshape(lot, -1)
        return self.sortie(y * torch.sigmoid(self.porte(x)))


class Ligne(nn.Module):
    def __init__(self, dim=32, postes=2):
        super().__init__()
        self.signal = nn.Embedding(N_SIGNAUX, dim)
        self.postes = nn.ModuleList([Poste(dim) for _ in range(postes)])
        self.normes = nn.ModuleList([nn.LayerNorm(dim) for _ in range(postes)])
        self.lecture = nn.Linear(dim, N_SIGNAUX)

    def nouvelle_depeche(self):
        for p in self.postes:
            p.oublier()

    def forward(self, signal):
        h = self.signal(signal)
        for p, n in zip(self.postes, self.normes):
            h = h + p(n(h))
        return self.lecture(h)

    @torch.no_grad()
    def transmettre(self, debut, combien):
        self.nouvelle_depeche()
        for s in debut:
            logits = self(s.view(1))
        suite = []
        for _ in range(combien):
            s = logits.argmax(-1)
            suite.append(int(s))
            logits = self(s)
        return suite


if __name__ == "__main__":
    torch.manual_seed(1794)
    print(Ligne().transmettre(torch.tensor([4, 17, 88]), 20))
