"""Image captions: an LSTM storyteller that glances at a CNN map before every word.

``canvas``: (B, C, H, W) feature map.  ``words``: (B, T) caption tokens (teacher forced).
The glance is Bahdanau's: every spot i gets the mark v . tanh(W_spot a_i + W_tale h), a
softmax over the spots, and the storyteller reads the weighted mean of the spots.
"""
import torch
import torch.nn as nn


class Glance(nn.Module):
    def __init__(self, spot_dim, tale_dim, inner):
        super().__init__()
        self.spot = nn.Linear(spot_dim, inner)
        self.tale = nn.Linear(tale_dim, inner, bias=False)
        self.mark = nn.Linear(inner, 1, bias=False)

    def forward(self, spots, tale):
        """spots (B, N, C), tale (B, D) -> seen (B, C), light (B, N)"""
        mixed = self.spot(spots) + self.tale(tale).unsqueeze(1)
        marks = self.mark(mixed).squeeze(2)
        light = marks.softmax(dim=1)
        seen = torch.einsum("bn,bnc->bc", light, spots)
        return seen, light


class Storyteller(nn.Module):
    def __init__(self, channels=12, vocab=40, word_dim=16, tale_dim=24, inner=20):
        super().__init__()
        self.glance = Glance(channels, tale_dim, inner)
        self.words = nn.Embedding(vocab, word_dim)
        self.start_h = nn.Linear(channels, tale_dim)
        self.start_c = nn.Linear(channels, tale_dim)
        self.gate = nn.Linear(tale_dim, channels)
        self.cell = nn.LSTMCell(word_dim + channels, tale_dim)
        self.say = nn.Linear(tale_dim, vocab)

    def forward(self, canvas, words):
        spots = canvas.flatten(2).transpose(1, 2)
        mean = spots.mean(dim=1)
        h, c = torch.tanh(self.start_h(mean)), torch.tanh(self.start_c(mean))
        said, lights = [], []
        for w in self.words(words).unbind(dim=1):
            seen, light = self.glance(spots, h)
            seen = torch.sigmoid(self.gate(h)) * seen
            h, c = self.cell(torch.cat([w, seen], dim=1), (h, c))
            said.append(self.say(h))
            lights.append(light)
        return torch.stack(said, dim=1), torch.stack(lights, dim=1)
