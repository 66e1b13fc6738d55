"""
Speller alla "Listen, Attend and Spell" con attenzione sensibile alla posizione
(Chorowski et al. 2015), riscritto per il riconoscitore di dialetti.

Uso:
    dec.inizia(memoria, lunghezze)   # una volta per frase
    ctx, alfa = dec.passo(stato)     # una volta per carattere
memoria   (B, T, M)  uscite dell'encoder;   lunghezze (B,) quanti frame sono veri (>= 1)
stato     (B, S)     stato corrente del decoder
ctx       (B, M),    alfa (B, T), somma 1 sui frame veri e 0 sui frame di riempimento

    f      = F * alfa_precedente            (convoluzione 1-D lungo il tempo)
    e_t    = w . tanh(W stato + V memoria_t + U f_t + b)
    alfa   = softmax(e) sui frame veri
Prima del primo passo alfa_precedente è uniforme sui frame veri.
"""
import torch
import torch.nn as nn


class AttenzionePosizionale(nn.Module):
    def __init__(self, S, M, A, filtri=10, ampiezza=11):
        super().__init__()
        self.W = nn.Linear(S, A, bias=True)         # qui dentro c'è anche b
        self.V = nn.Linear(M, A, bias=False)
        self.U = nn.Linear(filtri, A, bias=False)
        self.conv = nn.Conv1d(1, filtri, ampiezza, padding=ampiezza // 2, bias=False)
        self.w = nn.Linear(A, 1, bias=False)

    def inizia(self, memoria, lunghezze):
        tempo = torch.arange(memoria.size(1), device=memoria.device)
        self.memoria = memoria
        self.vuoto = tempo.unsqueeze(0) >= lunghezze.unsqueeze(1)
        self.chiavi = self.V(memoria)
        veri = (~self.vuoto).to(memoria.dtype)
        self.alfa = veri / veri.sum(1, keepdim=True)

    def passo(self, stato):
        f = self.conv(self.alfa.unsqueeze(1)).transpose(1, 2)
        e = self.w(torch.tanh(self.W(stato).unsqueeze(1) + self.chiavi + self.U(f))).squeeze(-1)
        e = e.masked_fill(self.vuoto, -float("inf"))
        self.alfa = torch.softmax(e, dim=1)
        ctx = torch.bmm(self.alfa.unsqueeze(1), self.memoria).squeeze(1)
        return ctx, self.alfa
