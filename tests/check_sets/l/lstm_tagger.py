import torch.nn as nn


class Tagger(nn.Module):
    """A bidirectional LSTM that tags every word."""

    def __init__(self, vocab=100, dim=32, tags=9):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.out = nn.Linear(dim, tags)

    def forward(self, words):
        h, _ = self.lstm(self.embedding(words))
        return self.out(h).log_softmax(-1)
