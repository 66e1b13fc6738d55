import torch
from torch import nn


class AttenzioneVisiva(nn.Module):
    """Attenzione additiva di Bahdanau per didascalie: v . tanh(W_a [stato; regione])."""

    def __init__(self, dim_stato, dim_regione, dim_nascosta):
        super().__init__()
        self.W_a = nn.Linear(dim_stato + dim_regione, dim_nascosta)
        self.v = nn.Linear(dim_nascosta, 1, bias=False)

    def forward(self, stato, regioni):
        n = regioni.size(1)
        coppia = torch.cat([stato.unsqueeze(1).expand(-1, n, -1), regioni], dim=-1)
        energia = self.v(self.W_a(coppia)).squeeze(-1)
        pesi = torch.softmax(energia, dim=-1)
        return (pesi.unsqueeze(-1) * regioni).sum(dim=1), pesi


class Didascalia(nn.Module):
    def __init__(self, vocabolario, dim=16, dim_regione=12):
        super().__init__()
        self.parole = nn.Embedding(vocabolario, dim)
        self.guarda = AttenzioneVisiva(dim, dim_regione, dim)
        self.lstm = nn.LSTMCell(dim + dim_regione, dim)
        self.uscita = nn.Linear(dim, vocabolario)

    def forward(self, parole, regioni):
        h = regioni.new_zeros(parole.size(0), self.uscita.in_features)
        c = h.clone()
        passi = []
        for p in self.parole(parole).unbind(1):
            contesto, _ = self.guarda(h, regioni)
            h, c = self.lstm(torch.cat([p, contesto], -1), (h, c))
            passi.append(self.uscita(h))
        return torch.stack(passi, 1)
