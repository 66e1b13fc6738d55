"""Luong-decoder voor een woordvertaler (nl -> fr), met input feeding.

De score is van het soort 'general': h_t^T W h_s, zonder schaling, zoals in het
artikel. De aandachtsvector gaat bij de volgende stap opnieuw de LSTM in.
"""
import torch
import torch.nn as nn


class Toestand:
    """Wat de decoder van stap tot stap onthoudt."""

    def __init__(self, h, c, feed):
        self.h = h
        self.c = c
        self.feed = feed


class LuongDecoder(nn.Module):
    def __init__(self, woorden, emb=16, verborgen=24, dropout=0.2):
        super().__init__()
        self.emb = nn.Embedding(woorden, emb, padding_idx=0)
        self.cel = nn.LSTMCell(emb + verborgen, verborgen)
        self.W_a = nn.Linear(verborgen, verborgen, bias=False)
        self.W_c = nn.Linear(2 * verborgen, verborgen, bias=False)
        self.uit = nn.Linear(verborgen, woorden)
        self.dropout = nn.Dropout(dropout)

    def begin(self, h, c):
        return Toestand(h, c, torch.zeros_like(h))

    def aandacht(self, h, bron, is_pad):
        # h: [B, D]   bron: [B, S, D]   is_pad: [B, S], True = opvulling
        scores = torch.bmm(self.W_a(bron), h.unsqueeze(2)).squeeze(2)
        scores = scores.masked_fill(is_pad, float("-inf"))
        gewichten = torch.softmax(scores, dim=1)
        context = torch.bmm(gewichten.unsqueeze(1), bron).squeeze(1)
        return context, gewichten

    def stap(self, woord, t, bron, is_pad):
        x = torch.cat([self.dropout(self.emb(woord)), t.feed], dim=1)
        h, c = self.cel(x, (t.h, t.c))
        context, gewichten = self.aandacht(h, bron, is_pad)
        h_tilde = torch.tanh(self.W_c(torch.cat([context, h], dim=1)))
        logits = self.uit(self.dropout(h_tilde))
        return logits, gewichten, Toestand(h, c, h_tilde)

    def forward(self, doel, bron, is_pad, h0, c0):
        t = self.begin(h0, c0)
        alle, kaart = [], []
        for i in range(doel.size(1)):
            logits, w, t = self.stap(doel[:, i], t, bron, is_pad)
            alle.append(logits)
            kaart.append(w)
        return torch.stack(alle, 1), torch.stack(kaart, 1)


if __name__ == "__main__":
    dec = LuongDecoder(50).eval()
    bron = torch.randn(2, 6, 24)
    pad = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
    h = torch.zeros(2, 24)
    y, k = dec(torch.randint(1, 50, (2, 5)), bron, pad, h, h)
    print(y.shape, k.sum(-1))
