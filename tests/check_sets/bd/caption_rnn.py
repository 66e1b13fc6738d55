"""Show-attend-and-tell style captioning.

Feature maps come from a frozen CNN: [B, P, feat], P = 14 * 14 places.
"""
import torch
from torch import nn


class SoftAttention(nn.Module):
    """Bahdanau (concat) scores: the decoder state and each place go through one hidden
    layer, a vector then turns it into a number; softmax over the places."""

    def __init__(self, feat_dim, state_dim, hidden):
        super().__init__()
        self.joint = nn.Linear(feat_dim + state_dim, hidden)
        self.energy = nn.Linear(hidden, 1, bias=False)

    def forward(self, feats, state):
        # feats [B, P, F], state [B, S]
        P = feats.size(1)
        s = state.unsqueeze(1).expand(-1, P, -1)
        e = self.energy(self.joint(torch.cat([feats, s], dim=2))).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        return (feats * alpha.unsqueeze(2)).sum(dim=1), alpha


class Captioner(nn.Module):
    def __init__(self, vocab, feat_dim=32, state_dim=40, emb=24, hidden=28, pad=0):
        super().__init__()
        self.pad = pad
        self.embed = nn.Embedding(vocab, emb, padding_idx=pad)
        self.attention = SoftAttention(feat_dim, state_dim, hidden)
        self.init_h = nn.Linear(feat_dim, state_dim)
        self.init_c = nn.Linear(feat_dim, state_dim)
        self.gate = nn.Linear(state_dim, feat_dim)
        self.cell = nn.LSTMCell(emb + feat_dim, state_dim)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(state_dim, vocab)

    def start(self, feats):
        m = feats.mean(dim=1)
        return torch.tanh(self.init_h(m)), torch.tanh(self.init_c(m))

    def forward(self, feats, captions):
        h, c = self.start(feats)
        words = self.embed(captions)
        scores, alphas = [], []
        for t in range(captions.size(1) - 1):
            ctx, alpha = self.attention(feats, h)
            ctx = ctx * torch.sigmoid(self.gate(h))
            h, c = self.cell(torch.cat([words[:, t], ctx], dim=1), (h, c))
            scores.append(self.out(self.drop(h)))
            alphas.append(alpha)
        return torch.stack(scores, 1), torch.stack(alphas, 1)

    def loss(self, feats, captions, reg=1.0):
        """Cross entropy plus the doubly stochastic term: every place should be looked at once."""
        scores, alphas = self(feats, captions)
        ce = nn.functional.cross_entropy(scores.flatten(0, 1), captions[:, 1:].flatten(), ignore_index=self.pad)
        return ce + reg * ((1 - alphas.sum(dim=1)) ** 2).mean()

    @torch.no_grad()
    def describe(self, feats, bos, eos, limit=20):
        h, c = self.start(feats)
        w = torch.full((feats.size(0),), bos, dtype=torch.long)
        out = []
        while len(out) < limit and not bool((w == eos).all()):
            ctx, _ = self.attention(feats, h)
            ctx = ctx * torch.sigmoid(self.gate(h))
            h, c = self.cell(torch.cat([self.embed(w), ctx], dim=1), (h, c))
            w = self.out(h).argmax(1)
            out.append(w)
        return torch.stack(out, 1)
