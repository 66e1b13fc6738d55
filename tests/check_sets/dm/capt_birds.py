"""Captions for the birds at my feeder.  CNN grid + GRU + soft attention.

grid   (B, R, D)   R = 49 regions of the CNN, D channels, always all present
h      (1, B, D)   GRU state
word   (B,)        previous word

At every step the decoder compares its input with each of the R regions and decides by
what it finds there where to look; the weights over the regions come from a
softmax of the comparison scores.  The order in which regions are listed must
not matter for the result (they are a set, the CNN features carry a position
code).

Returns log-probabilities (B, vocab), h (1, B, D), weights (B, R).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BirdDecoder(nn.Module):
    def __init__(self, vocab, D=32, R=49, p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, D)
        self.attn = nn.Linear(D * 2, R)
        self.attn_combine = nn.Linear(D * 2, D)
        self.dropout = nn.Dropout(p)
        self.gru = nn.GRU(D, D)
        self.out = nn.Linear(D, vocab)

    def forward(self, word, h, grid):
        emb = self.dropout(self.embedding(word))                        # B, D
        attn_weights = F.softmax(self.attn(torch.cat((emb, h[0]), 1)), dim=1)
        attn_applied = torch.bmm(attn_weights.unsqueeze(1), grid).squeeze(1)

        x = torch.cat((emb, attn_applied), 1)
        x = F.relu(self.attn_combine(x)).unsqueeze(0)
        x, h = self.gru(x, h)
        return F.log_softmax(self.out(x[0]), dim=1), h, attn_weights
