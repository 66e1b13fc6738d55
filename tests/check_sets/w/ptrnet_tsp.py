import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, embed, hidden):
        super().__init__()
        self.embed = nn.Linear(2, embed)
        self.rnn = nn.LSTM(embed, hidden, batch_first=True)

    def forward(self, pts):
        e = self.embed(pts)
        out, (h, c) = self.rnn(e)
        return e, out, (h[0], c[0])


class Attn(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.Wref = nn.Linear(hidden, hidden, bias=False)
        self.Wq = nn.Linear(hidden, hidden)
        self.v = nn.Parameter(torch.empty(hidden).uniform_(-0.1, 0.1))

    def forward(self, ref, q):
        """ref (b, n, h), q (b, h) -> (b, n) unnormalised"""
        return torch.tanh(self.Wref(ref) + self.Wq(q).unsqueeze(1)) @ self.v


class PointerTSP(nn.Module):
    """Déroulé glouton : à chaque pas un coup d'œil sur les villes restantes, puis on en pointe une."""

    def __init__(self, embed=32, hidden=32, clip=10.0):
        super().__init__()
        self.enc = Encoder(embed, hidden)
        self.cell = nn.LSTMCell(embed, hidden)
        self.glimpse = Attn(hidden)
        self.pointer = Attn(hidden)
        self.start = nn.Parameter(torch.randn(embed) * 0.1)
        self.C = clip

    def forward(self, pts):
        # pts : (batch, n_villes, 2)
        b, n, _ = pts.shape
        emb, ref, state = self.enc(pts)
        deja_vu = torch.zeros(b, n, dtype=torch.bool, device=pts.device)
        entree = self.start.expand(b, -1)
        tournee, log_probas = [], []
        for _ in range(n):
            h, c = self.cell(entree, state)
            state = (h, c)
            g = self.glimpse(ref, h).masked_fill(deja_vu, float("-inf"))
            p = torch.softmax(g, dim=1)
            ctx = torch.einsum("bn,bnh->bh", p, ref)

            u = self.C * torch.tanh(self.pointer(ref, ctx))
            u = u.masked_fill(deja_vu, float("-inf"))
            logp = torch.log_softmax(u, dim=1)
            choix = logp.argmax(dim=1)

            tournee.append(choix)
            log_probas.append(logp.gather(1, choix[:, None]).squeeze(1))
            deja_vu = deja_vu.scatter(1, choix[:, None], True)
            entree = emb[torch.arange(b, device=pts.device), choix]
        return torch.stack(tournee, 1), torch.stack(log_probas, 1).sum(1)
