"""Retrieval: a reader asks, the librarian brings the best few notes and blends them.

``reader``: (B, R, D), R questions for each desk.
``shelf``:  (B, N, D), notes of the desk.
``lent``:   (B, N) bool, True where the note is away (its row is stale) and must
not be used.  A desk whose notes are all away gives a zero blend.
"""
import torch
import torch.nn as nn


class Librarian(nn.Module):
    def __init__(self, width=16, card=8, best=3):
        super().__init__()
        self.best = best
        self.card = card
        self.ask = nn.Linear(width, card, bias=False)
        self.spine = nn.Linear(width, card, bias=False)
        self.text = nn.Linear(width, width)
        self.write = nn.Linear(2 * width, width)

    def forward(self, reader, shelf, lent):
        question = self.ask(reader)                          # B R c
        spine = self.spine(shelf)                            # B N c
        fit = torch.einsum("brc,bnc->brn", question, spine) * self.card ** -0.5
        low = torch.finfo(fit.dtype).min
        fit = fit.masked_fill(lent.unsqueeze(1), low)

        n = min(self.best, shelf.shape[1])
        fit, place = fit.topk(n, dim=-1)                     # B R n
        away = lent.unsqueeze(1).expand(-1, reader.shape[1], -1).gather(-1, place)

        share = torch.softmax(fit, dim=-1)
        share = share.masked_fill(away, 0.0)

        text = self.text(shelf)                              # B N D
        B, R, _ = place.shape
        desk = torch.arange(B, device=shelf.device)[:, None, None]
        found = text[desk, place]                            # B R n D
        blend = (share.unsqueeze(-1) * found).sum(dim=2)
        return self.write(torch.cat([reader, blend], dim=-1))
