"""Risposte dei personaggi non giocanti: decodificatore GRU con attenzione.

A ogni passo lo stato del decodificatore viene CONFRONTATO con ogni uscita h_j del
codificatore (attenzione di Bahdanau); i pesi dipendono quindi da ciò che il giocatore
ha scritto, parola per parola:

    pesi = softmax_j punteggio(s, h_j)  sulle parole vere,   contesto = sum_j pesi_j h_j

DecoderNPC(n_parole, dim, max_len).passo(parola, stato, uscite, vere)
    parola  [B] int        parola precedente
    stato   [B, dim]
    uscite  [B, L, dim]    uscite del codificatore, L <= max_len
    vere    [B, L] bool    True = parola vera, False = riempimento
-> (logit [B, n_parole], nuovo stato [B, dim], pesi [B, L])
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderNPC(nn.Module):
    def __init__(self, n_parole, dim=24, max_len=20):
        super().__init__()
        self.max_len = max_len
        self.emb = nn.Embedding(n_parole, dim)
        self.attn = nn.Linear(dim * 2, max_len)
        self.combina = nn.Linear(dim * 2, dim)
        self.gru = nn.GRUCell(dim, dim)
        self.uscita = nn.Linear(dim, n_parole)

    def passo(self, parola, stato, uscite, vere):
        L = uscite.size(1)
        e = self.emb(parola)
        punti = self.attn(torch.cat((e, stato), dim=1))[:, :L]
        pesi = F.softmax(punti.masked_fill(~vere, float("-inf")), dim=1)
        contesto = torch.bmm(pesi.unsqueeze(1), uscite).squeeze(1)
        x = F.relu(self.combina(torch.cat((e, contesto), dim=1)))
        stato = self.gru(x, stato)
        return self.uscita(stato), stato, pesi

    @torch.no_grad()
    def rispondi(self, uscite, vere, inizio=1, fine=2, passi=15):
        """decodifica golosa per un solo giocatore (B = 1)"""
        parola = torch.tensor([inizio])
        stato = uscite.mean(1)
        frase = []
        for _ in range(passi):
            logit, stato, _ = self.passo(parola, stato, uscite, vere)
            parola = logit.argmax(-1)
            if parola.item() == fine:
                break
            frase.append(parola.item())
        return frase
