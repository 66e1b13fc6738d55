# IMDB kernel: BiLSTM, then every word looks at every other word, then max over the review
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ReviewNet(nn.Module):
    """ids (B, L), all reviews cut to the same length L -> (B, classes)"""

    def __init__(self, vocab=120, emb=20, hid=16, classes=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(2 * hid)
        self.query = nn.Linear(2 * hid, 2 * hid)
        self.key = nn.Linear(2 * hid, 2 * hid)
        self.value = nn.Linear(2 * hid, 2 * hid)
        self.fc = nn.Linear(2 * hid, classes)

    def word_mix(self, h):
        """h (B, L, D): each word gets a weighted average of all the words, (B, L, D)."""
        q, k, v = self.query(h), self.key(h), self.value(h)
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
        weights = F.softmax(scores, dim=1)
        return torch.bmm(weights, v)

    def forward(self, ids):
        h, _ = self.lstm(self.emb(ids))
        h = self.norm(h)
        h = h + self.word_mix(h)
        return self.fc(h.max(dim=1).values)
