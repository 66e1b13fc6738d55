# Tłumacz neuronowy, lekcja 6
import torch
import torch.nn as nn
import torch.nn.functional as F


class Uwaga(nn.Module):
    """Uwaga addytywna (Bahdanau)."""

    def __init__(self, rozmiar):
        super().__init__()
        self.Wa = nn.Linear(rozmiar, rozmiar)
        self.Ua = nn.Linear(rozmiar, rozmiar)
        self.Va = nn.Linear(rozmiar, 1)

    def forward(self, zapytanie, klucze):
        # zapytanie (B, 1, H), klucze (B, S, H) -> (B, 1, H), (B, 1, S)
        oceny = self.Va(self.Wa(zapytanie) + self.Ua(klucze))
        wagi = F.softmax(oceny.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(wagi, klucze), wagi


class Dekoder(nn.Module):
    def __init__(self, ukryte=24, slownik=30, max_dl=8):
        super().__init__()
        self.max_dl = max_dl
        self.emb = nn.Embedding(slownik, ukryte)
        self.uwaga = Uwaga(ukryte)
        self.gru = nn.GRU(2 * ukryte, ukryte, batch_first=True)
        self.wyjscie = nn.Linear(ukryte, slownik)

    def forward(self, koder_wyj, koder_stan, cel=None):
        """koder_wyj (B, S, H), koder_stan (1, B, H), cel (B, T) albo None"""
        B = koder_wyj.size(0)
        slowo = torch.zeros(B, 1, dtype=torch.long, device=koder_wyj.device)
        stan, wyniki = koder_stan, []
        for i in range(self.max_dl if cel is None else cel.size(1)):
            kontekst, _ = self.uwaga(stan.permute(1, 0, 2), koder_wyj)
            o, stan = self.gru(torch.cat([self.emb(slowo), kontekst], 2), stan)
            logit = self.wyjscie(o)
            wyniki.append(logit)
            slowo = cel[:, i:i + 1] if cel is not None else logit.argmax(-1).detach()
        return F.log_softmax(torch.cat(wyniki, 1), dim=-1)
