# Assignment 3 - Machine Translation with Transformers
# Name: ____________   Matrikelnr.: _________
import math
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=100):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer('pe', pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class MehrkopfAufmerksamkeit(nn.Module):
    """maske: broadcastable to (B, koepfe, Tq, Tk), 1 = sehen, 0 = nicht sehen"""

    def __init__(self, d_model, koepfe):
        super().__init__()
        self.koepfe = koepfe
        self.d_k = d_model // koepfe
        self.anfrage = nn.Linear(d_model, d_model)
        self.schluessel = nn.Linear(d_model, d_model)
        self.wert = nn.Linear(d_model, d_model)
        self.ausgabe = nn.Linear(d_model, d_model)

    def forward(self, q, k, v, maske=None):
        B = q.size(0)
        Q = self.anfrage(q).view(B, self.koepfe, -1, self.d_k)
        K = self.schluessel(k).view(B, self.koepfe, -1, self.d_k)
        V = self.wert(v).view(B, self.koepfe, -1, self.d_k)

        punkte = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.d_k)
        if maske is not None:
            punkte = punkte.masked_fill(maske == 0, 1e-9)
        gewichte = torch.softmax(punkte, dim=-1)
        kontext = torch.matmul(gewichte, V)
        kontext = kontext.transpose(1, 2).reshape(B, -1, self.koepfe * self.d_k)
        return self.ausgabe(kontext)


class EncoderSchicht(nn.Module):
    def __init__(self, d_model, koepfe, d_ff, p=0.1):
        super().__init__()
        self.att = MehrkopfAufmerksamkeit(d_model, koepfe)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.p = nn.Dropout(p)

    def forward(self, x, maske):
        x = self.n1(x + self.p(self.att(x, x, x, maske)))
        return self.n2(x + self.p(self.ff(x)))


class DecoderSchicht(nn.Module):
    def __init__(self, d_model, koepfe, d_ff, p=0.1):
        super().__init__()
        self.selbst = MehrkopfAufmerksamkeit(d_model, koepfe)
        self.kreuz = MehrkopfAufmerksamkeit(d_model, koepfe)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2, self.n3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.p = nn.Dropout(p)

    def forward(self, y, quelle, q_maske, z_maske):
        y = self.n1(y + self.p(self.selbst(y, y, y, z_maske)))
        y = self.n2(y + self.p(self.kreuz(y, quelle, quelle, q_maske)))
        return self.n3(y + self.p(self.ff(y)))


class Uebersetzer(nn.Module):
    def __init__(self, src_vocab=30, tgt_vocab=35, d_model=24, koepfe=4, d_ff=48, schichten=2, pad=0):
        super().__init__()
        self.pad, self.d_model = pad, d_model
        self.src_emb, self.tgt_emb = nn.Embedding(src_vocab, d_model), nn.Embedding(tgt_vocab, d_model)
        self.pos = PositionalEncoding(d_model)
        self.enc = nn.ModuleList([EncoderSchicht(d_model, koepfe, d_ff) for _ in range(schichten)])
        self.dec = nn.ModuleList([DecoderSchicht(d_model, koepfe, d_ff) for _ in range(schichten)])
        self.kopf = nn.Linear(d_model, tgt_vocab)

    def masken(self, src, tgt):
        q = (src != self.pad)[:, None, None, :]
        T = tgt.size(1)
        z = (tgt != self.pad)[:, None, None, :] & torch.tril(torch.ones(T, T, device=tgt.device)).bool()
        return q, z

    def forward(self, src, tgt):
        q_maske, z_maske = self.masken(src, tgt)
        x = self.pos(self.src_emb(src) * math.sqrt(self.d_model))
        for s in self.enc:
            x = s(x, q_maske)
        y = self.pos(self.tgt_emb(tgt) * math.sqrt(self.d_model))
        for s in self.dec:
            y = s(y, x, q_maske, z_maske)
        return self.kopf(y)
