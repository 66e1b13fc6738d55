"""Ortssensitive Aufmerksamkeit für den Mel-Decoder (nach Chorowski 2015 / Tacotron 2).

    e_t,j = v^T tanh( W s_t + V h_j + U f_t,j + b ),   f_t = F * alpha_{t-1}, sum(alpha)

Maske: True = aufgefüllter Zeitschritt (wird ignoriert).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LinearNorm(nn.Module):
    def __init__(self, ein, aus, bias=True, gain="linear"):
        super().__init__()
        self.schicht = nn.Linear(ein, aus, bias=bias)
        nn.init.xavier_uniform_(self.schicht.weight, gain=nn.init.calculate_gain(gain))

    def forward(self, x):
        return self.schicht(x)


class Ortsmerkmale(nn.Module):
    def __init__(self, filter_zahl, kern, dim):
        super().__init__()
        self.faltung = nn.Conv1d(2, filter_zahl, kern, padding=(kern - 1) // 2, bias=False)
        self.dicht = LinearNorm(filter_zahl, dim, bias=False, gain="tanh")

    def forward(self, gewichte_paar):
        return self.dicht(self.faltung(gewichte_paar).transpose(1, 2))


class Aufmerksamkeit(nn.Module):
    minus = -float("inf")

    def __init__(self, dim_zustand, dim_text, dim=32, filter_zahl=8, kern=7):
        super().__init__()
        self.w_s = LinearNorm(dim_zustand, dim, bias=False, gain="tanh")
        self.w_h = LinearNorm(dim_text, dim, bias=False, gain="tanh")
        self.v = LinearNorm(dim, 1, bias=False)
        self.ort = Ortsmerkmale(filter_zahl, kern, dim)

    def vorbereiten(self, text):
        """einmal je Satz, nicht in jedem Schritt"""
        return self.w_h(text)

    def forward(self, zustand, text, text_proj, paar, maske=None):
        """
        zustand   [B, Ds]     Zustand des Aufmerksamkeits-RNN
        text      [B, T, Dt]  Ausgaben des Encoders
        text_proj [B, T, D]   aus vorbereiten()
        paar      [B, 2, T]   (letzte Gewichte, aufsummierte Gewichte)
        """
        q = self.w_s(zustand.unsqueeze(1))
        e = self.v(torch.tanh(q + text_proj + self.ort(paar))).squeeze(-1)
        if maske is not None:
            e = e.masked_fill(maske, self.minus)
        a = F.softmax(e, dim=1)          # e ist [B, T]
        kontext = torch.bmm(a.unsqueeze(1), text).squeeze(1)
        return kontext, a


class MelDecoder(nn.Module):
    def __init__(self, n_mel=20, dim_text=24, dim_rnn=28, reduktion=1):
        super().__init__()
        self.n_mel, self.r = n_mel, reduktion
        self.prenet = nn.Sequential(nn.Linear(n_mel, 16), nn.ReLU())
        self.rnn = nn.LSTMCell(16 + dim_text, dim_rnn)
        self.auf = Aufmerksamkeit(dim_rnn, dim_text)
        self.aus = nn.Linear(dim_rnn + dim_text, n_mel * reduktion)
        self.stopp = nn.Linear(dim_rnn + dim_text, 1)

    def forward(self, text, mels, maske=None):
        B, T, Dt = text.shape
        h = c = text.new_zeros(B, self.rnn.hidden_size)
        kontext = text.new_zeros(B, Dt)
        a = summe = text.new_zeros(B, T)
        proj = self.auf.vorbereiten(text)
        rahmen, stopps, wege = [], [], []
        x = text.new_zeros(B, self.n_mel)
        for t in range(mels.shape[1]):
            h, c = self.rnn(torch.cat([self.prenet(x), kontext], -1), (h, c))
            kontext, a = self.auf(h, text, proj, torch.stack([a, summe], 1), maske)
            summe = summe + a
            hk = torch.cat([h, kontext], -1)
            rahmen.append(self.aus(hk))
            stopps.append(self.stopp(hk))
            wege.append(a)
            x = mels[:, t]               # Lehrer gibt vor
        return torch.stack(rahmen, 1), torch.cat(stopps, 1), torch.stack(wege, 1)
