# Previsione della glicemia per il microinfusore: encoder GRU sulle ultime ore del sensore,
# decoder passo-passo con allineamento globale "general" (Luong 2015) e input feeding.
import torch
from torch import nn


def tronca(lunghezze, T):
    """[B] -> [B, T], True dove c'e' una lettura vera."""
    return torch.arange(T, device=lunghezze.device)[None] < lunghezze[:, None]


class Codificatore(nn.Module):
    def __init__(self, canali, H):
        super().__init__()
        self.gru = nn.GRU(canali, H, batch_first=True)

    def forward(self, x, lunghezze):
        memoria, _ = self.gru(x)
        ultimo = memoria[torch.arange(len(x)), lunghezze - 1]
        return memoria, ultimo


class AllineamentoGenerale(nn.Module):
    """score(h_t, h_s) = h_t^T W h_s  (nessuna scala, come nell'articolo);
    vettore attenzionale  h~ = tanh(W_c [c ; h_t]).
    Ogni sequenza ha almeno una lettura."""

    def __init__(self, H):
        super().__init__()
        self.W = nn.Linear(H, H, bias=False)
        self.Wc = nn.Linear(2 * H, H, bias=False)

    def forward(self, stato, memoria, valido):
        # stato [B,H]  memoria [B,T,H]  valido [B,T]
        punti = torch.bmm(memoria, self.W(stato).unsqueeze(2)).squeeze(2)
        punti = punti.masked_fill(valido.logical_not(), -torch.inf)
        a = torch.softmax(punti, dim=1)          # dim 1 = tempo: qui non ci sono teste
        c = torch.bmm(a.unsqueeze(1), memoria).squeeze(1)
        return torch.tanh(self.Wc(torch.cat((c, stato), 1))), a


class Previsore(nn.Module):
    def __init__(self, canali=3, H=20, passi=6):
        super().__init__()
        self.passi = passi
        self.enc = Codificatore(canali, H)
        self.cella = nn.GRUCell(1 + H, H)
        self.allinea = AllineamentoGenerale(H)
        self.testa = nn.Linear(H, 1)

    def forward(self, x, lunghezze, obiettivo=None):
        """x [B,T,3] = (mg/dl normalizzati, carboidrati, insulina attiva).
        Con `obiettivo` [B,passi] fa teacher forcing."""
        memoria, h = self.enc(x, lunghezze)
        valido = tronca(lunghezze, x.size(1))
        y = x[torch.arange(len(x)), lunghezze - 1, 0:1]
        htilde = torch.zeros_like(h)
        uscite, pesi = [], []
        for t in range(self.passi):
            h = self.cella(torch.cat([y, htilde], 1), h)
            htilde, a = self.allinea(h, memoria, valido)
            pred = self.testa(htilde)
            uscite.append(pred)
            pesi.append(a)
            y = pred if obiettivo is None else obiettivo[:, t:t + 1]
        return torch.cat(uscite, 1), torch.stack(pesi, 1)


class Sicurezza:
    """Blocca il bolo se la previsione scende sotto soglia (mg/dl)."""

    def __init__(self, soglia=80.0, media=140.0, dev=45.0):
        self.soglia, self.media, self.dev = soglia, media, dev

    def consenti(self, previsione):
        return (previsione * self.dev + self.media).amin(1) > self.soglia


if __name__ == "__main__":
    torch.manual_seed(1)
    m = Previsore()
    y, w = m(torch.randn(4, 9, 3), torch.tensor([9, 5, 7, 2]))
    print(Sicurezza().consenti(y.detach()), w.sum(-1))
