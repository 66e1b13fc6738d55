# image captioning: CNN feature grid + LSTM decoder looking at the grid while it talks
import torch
import torch.nn as nn


class Glance(nn.Module):
    """Soft additive (MLP) attention: a one-hidden-layer net scores each region against the LSTM state.

    regions: (B, R, region_dim); mind: (B, mind_dim)
    gives the glimpsed vector (B, region_dim) and the weight of each region (B, R)
    """

    def __init__(self, region_dim=32, mind_dim=24, joint=20):
        super().__init__()
        self.of_region = nn.Linear(region_dim, joint)
        self.of_mind = nn.Linear(mind_dim, joint)
        self.verdict = nn.Linear(joint, 1)

    def forward(self, regions, mind):
        joint = self.of_region(regions) + self.of_mind(mind).unsqueeze(1)
        worth = self.verdict(joint).squeeze(2)
        share = worth.softmax(dim=1)
        seen = (regions * share.unsqueeze(2)).sum(dim=1)
        return seen, share


class Talker(nn.Module):
    def __init__(self, vocab=60, word_dim=16, region_dim=32, mind_dim=24):
        super().__init__()
        self.words = nn.Embedding(vocab, word_dim)
        self.glance = Glance(region_dim, mind_dim)
        self.h0 = nn.Linear(region_dim, mind_dim)
        self.c0 = nn.Linear(region_dim, mind_dim)
        self.gate = nn.Linear(mind_dim, region_dim)
        self.cell = nn.LSTMCell(word_dim + region_dim, mind_dim)
        self.say = nn.Linear(mind_dim, vocab)

    def forward(self, grid, caption):
        """grid: (B, C, H, W) features of the CNN, caption: (B, T) token ids (teacher forcing)"""
        regions = grid.flatten(2).transpose(1, 2)
        mean = regions.mean(dim=1)
        h, c = self.h0(mean).tanh(), self.c0(mean).tanh()
        emb = self.words(caption)
        logits, shares = [], []
        for t in range(caption.size(1)):
            seen, share = self.glance(regions, h)
            seen = torch.sigmoid(self.gate(h)) * seen
            h, c = self.cell(torch.cat([emb[:, t], seen], dim=1), (h, c))
            logits.append(self.say(h))
            shares.append(share)
        return torch.stack(logits, 1), torch.stack(shares, 1)


def doubly_stochastic_penalty(shares):
    """(B, T, R): every region should be looked at about once"""
    return ((1.0 - shares.sum(dim=1)) ** 2).mean()
