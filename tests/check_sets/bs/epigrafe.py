"""Integrazione di epigrafi etrusche lacunose.

Codificatore BiGRU, decodificatore GRU con attenzione additiva "location-aware"
(Chorowski 2015): il punteggio vede anche, per convoluzione, la somma dei pesi passati.

    e_ti = v . tanh(W s_{t-1} + V h_i + U f_ti + b),   f_t = F * (somma dei pesi fino a t-1)

`lunghezze` dice quanti segni ha ogni epigrafe; oltre è riempimento.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

ALFABETO = "acevzhthiklmnpśrstuφχf·"
INIZIO, FINE = len(ALFABETO), len(ALFABETO) + 1
N = len(ALFABETO) + 2


class AttenzioneAdditiva(nn.Module):
    def __init__(self, d_stato, d_memoria, d_interno=24, filtri=5, ampiezza=7):
        super().__init__()
        self.W = nn.Linear(d_stato, d_interno, bias=False)
        self.V = nn.Linear(d_memoria, d_interno)
        self.conv = nn.Conv1d(1, filtri, ampiezza, padding=ampiezza // 2, bias=False)
        self.U = nn.Linear(filtri, d_interno, bias=False)
        self.v = nn.Linear(d_interno, 1, bias=False)

    def forward(self, stato, memoria, passato, fuori):
        """stato [B,S], memoria [B,L,M], passato [B,L] pesi già spesi,
        fuori [B,L] vero dove c'è solo riempimento.  Rende (contesto, pesi)."""
        f = self.conv(passato.unsqueeze(1)).transpose(1, 2)
        z = torch.tanh(self.W(stato).unsqueeze(1) + self.V(memoria) + self.U(f))
        e = self.v(z).squeeze(-1)
        e = e.masked_fill(fuori, float("-inf"))
        pesi = F.softmax(e, dim=1)
        contesto = torch.bmm(pesi.unsqueeze(1), memoria).squeeze(1)
        return contesto, pesi


class Restauratore(nn.Module):
    def __init__(self, d=20):
        super().__init__()
        self.segni = nn.Embedding(N, d)
        self.cod = nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.ponte = nn.Linear(2 * d, d)
        self.cella = nn.GRUCell(d + 2 * d, d)
        self.att = AttenzioneAdditiva(d, 2 * d)
        self.uscita = nn.Linear(d + 2 * d, N)

    def codifica(self, testo, lunghezze):
        imp = nn.utils.rnn.pack_padded_sequence(
            self.segni(testo), lunghezze.cpu(), batch_first=True, enforce_sorted=False)
        mem, _ = self.cod(imp)
        mem, _ = nn.utils.rnn.pad_packed_sequence(mem, batch_first=True, total_length=testo.size(1))
        fuori = torch.arange(testo.size(1))[None] >= lunghezze[:, None]
        medio = mem.sum(1) / lunghezze[:, None]
        return mem, fuori, torch.tanh(self.ponte(medio))

    def forward(self, testo, lunghezze, bersaglio=None, passi=10):
        """Con `bersaglio` [B,T] si addestra (teacher forcing), senza si genera."""
        mem, fuori, s = self.codifica(testo, lunghezze)
        B = testo.size(0)
        passato = mem.new_zeros(B, mem.size(1))
        y = torch.full((B,), INIZIO)
        logit, mappe = [], []
        for t in range(passi if bersaglio is None else bersaglio.size(1)):
            c, a = self.att(s, mem, passato, fuori)
            passato = passato + a
            s = self.cella(torch.cat([self.segni(y), c], -1), s)
            o = self.uscita(torch.cat([s, c], -1))
            logit.append(o)
            mappe.append(a)
            y = o.argmax(-1) if bersaglio is None else bersaglio[:, t]
        return torch.stack(logit, 1), torch.stack(mappe, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    t = torch.randint(0, len(ALFABETO), (3, 9))
    log, m = Restauratore()(t, torch.tensor([9, 4, 6]))
    print(log.shape, m.sum(-1))
