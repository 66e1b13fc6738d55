"""Image captioning decoder, one word at a time ("soft attention" over the 7x7 grid).

    word     (B,)  long, previous word
    regions  (B, R, C)   CNN features of the R regions (R = 49 for a 7x7 map)
    state    (h, c), each (B, hidden)
    returns  logits (B, vocab), alpha (B, R), new state

At every step the decoder state is compared with every region's feature, a softmax over
the regions turns the comparisons into alpha, and the context is the alpha-weighted sum
of the regions.  Regions carry no order: shuffling them shuffles alpha and leaves the
logits as they are.
"""
import torch
import torch.nn as nn


class RegionAttention(nn.Module):
    def __init__(self, n_regions, feat, emb, hidden):
        super().__init__()
        self.attn = nn.Linear(emb + hidden, n_regions)
        self.feat = nn.Linear(feat, hidden)

    def forward(self, e, h, regions):
        alpha = torch.softmax(self.attn(torch.cat((e, h), dim=1)), dim=1)
        context = torch.bmm(alpha.unsqueeze(1), self.feat(regions)).squeeze(1)
        return context, alpha


class CaptionStep(nn.Module):
    def __init__(self, vocab, n_regions=49, feat=128, emb=48, hidden=64, p=0.5):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.attention = RegionAttention(n_regions, feat, emb, hidden)
        self.h0 = nn.Linear(feat, hidden)
        self.c0 = nn.Linear(feat, hidden)
        self.gate = nn.Linear(hidden, hidden)
        self.lstm = nn.LSTMCell(emb + hidden, hidden)
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(hidden, vocab)

    def start(self, regions):
        mean = regions.mean(dim=1)
        return torch.tanh(self.h0(mean)), torch.tanh(self.c0(mean))

    def forward(self, word, regions, state):
        e = self.emb(word)
        context, alpha = self.attention(e, state[0], regions)
        context = torch.sigmoid(self.gate(state[0])) * context
        h, c = self.lstm(torch.cat((e, context), dim=1), state)
        return self.out(self.drop(h)), alpha, (h, c)
