"""Luong, Pham e Manning (2015): attenzione globale, punteggio "general".

    score(h_t, h_s) = h_t^T W_a h_s
    a_t = softmax(score),  c_t = sum a_t h_s,  h~_t = tanh(W_c [c_t; h_t])
"""
import torch
import torch.nn as nn


class AttenzioneGlobale(nn.Module):
    """
    nascosti  (B, T, N)  stati del decodificatore
    sorgente  (B, S, N)  stati del codificatore
    lunghezze (B,)       parole vere in ogni frase sorgente; il resto e' riempimento e va ignorato
    -> (B, T, N), (B, T, S)
    """

    def __init__(self, N=20):
        super().__init__()
        self.W_a = nn.Linear(N, N, bias=False)
        self.W_c = nn.Linear(2 * N, N, bias=False)

    def forward(self, nascosti, sorgente, lunghezze=None):
        punteggi = torch.bmm(nascosti, self.W_a(sorgente).transpose(1, 2))
        if lunghezze is not None:
            vere = torch.arange(sorgente.size(1), device=sorgente.device)[None, :] < lunghezze[:, None]
            punteggi = punteggi.masked_fill(~vere.unsqueeze(1), 1e-9)
        pesi = torch.softmax(punteggi, dim=-1)
        contesto = torch.bmm(pesi, sorgente)
        h = torch.tanh(self.W_c(torch.cat([contesto, nascosti], dim=-1)))
        return h, pesi


class Decodificatore(nn.Module):
    """LSTM con attenzione in uscita (senza input feeding)."""

    def __init__(self, vocab=50, N=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, N)
        self.lstm = nn.LSTM(N, N, batch_first=True)
        self.att = AttenzioneGlobale(N)
        self.out = nn.Linear(N, vocab)

    def forward(self, parole, sorgente, lunghezze=None, stato=None):
        h, stato = self.lstm(self.emb(parole), stato)
        h, pesi = self.att(h, sorgente, lunghezze)
        return self.out(h), stato, pesi
