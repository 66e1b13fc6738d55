"""Chest X-ray report generation - decoder with visual attention.

regions (B, R, V)   R region features from a DenseNet
prev    (B,) int    previous word
state   (h, c)      LSTM state, each (B, H)

At every word the decoder scores each region by comparing its current hidden
state and the previous word with what the region shows (content-based additive
attention), takes the softmax over the regions and reads the weighted mean of
the regions.  Reordering the regions must reorder the weights alike.
step() returns (logits (B, vocab), state, weights (B, R)).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ReportDecoder(nn.Module):
    def __init__(self, vocab, n_regions, visual, emb=16, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.attn = nn.Linear(emb + hidden, n_regions)
        self.attn_combine = nn.Linear(emb + visual, emb)
        self.lstm = nn.LSTMCell(emb, hidden)
        self.h0 = nn.Linear(visual, hidden)
        self.c0 = nn.Linear(visual, hidden)
        self.word = nn.Linear(hidden, vocab)

    def begin(self, regions):
        m = regions.mean(1)
        return torch.tanh(self.h0(m)), torch.tanh(self.c0(m))

    def step(self, prev, state, regions):
        e = self.embed(prev)
        scores = self.attn(torch.cat((e, state[0]), dim=1))
        weights = F.softmax(scores, dim=1)
        context = torch.bmm(weights.unsqueeze(1), regions).squeeze(1)
        x = F.relu(self.attn_combine(torch.cat((e, context), dim=1)))
        state = self.lstm(x, state)
        return self.word(state[0]), state, weights

    def forward(self, regions, words):
        """teacher forcing; words (B, T) -> logits (B, T, vocab)"""
        state, out = self.begin(regions), []
        for t in range(words.size(1)):
            y, state, _ = self.step(words[:, t], state, regions)
            out.append(y)
        return torch.stack(out, 1)
