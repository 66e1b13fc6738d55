# Kaggle "insincere questions": BiGRU + attention pooling, moved from the notebook into a module.
import re

import torch
from torch import nn

PUNCT = re.compile(r"([^\w\s'])")


def tokenize(text):
    return PUNCT.sub(r" \1 ", text.lower()).split()


def build_vocab(texts, min_count=2):
    counts = {}
    for t in texts:
        for w in tokenize(t):
            counts[w] = counts.get(w, 0) + 1
    words = sorted(w for w, c in counts.items() if c >= min_count)
    return {w: i + 2 for i, w in enumerate(words)}  # 0 pad, 1 unk


def encode(texts, vocab, maxlen=70):
    rows = [[vocab.get(w, 1) for w in tokenize(t)][:maxlen] or [1] for t in texts]
    n = max(map(len, rows))
    return torch.tensor([r + [0] * (n - len(r)) for r in rows])


class SpatialDropout(nn.Dropout1d):
    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class AttentionPool(nn.Module):
    """Weighted mean over the words of a question (weights: softmax over its real words).

    mask [B, L]: 1 = word, 0 = padding
    """

    def __init__(self, dim, hidden=32):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False))

    def forward(self, x, mask):
        w = torch.softmax(self.score(x).squeeze(-1), dim=1)
        w = w * mask
        return (w.unsqueeze(-1) * x).sum(1), w


class Net(nn.Module):
    def __init__(self, n_words, emb=64, hid=32):
        super().__init__()
        self.emb = nn.Embedding(n_words, emb, padding_idx=0)
        self.sd = SpatialDropout(0.2)
        self.gru1 = nn.GRU(emb, hid, bidirectional=True, batch_first=True)
        self.gru2 = nn.GRU(2 * hid, hid, bidirectional=True, batch_first=True)
        self.pool1, self.pool2 = AttentionPool(2 * hid), AttentionPool(2 * hid)
        self.head = nn.Sequential(nn.Linear(6 * hid, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))

    def forward(self, ids):
        mask = (ids != 0).float()
        h1, _ = self.gru1(self.sd(self.emb(ids)))
        h2, _ = self.gru2(h1)
        a1, _ = self.pool1(h1, mask)
        a2, _ = self.pool2(h2, mask)
        mx = h2.masked_fill(mask[..., None] == 0, -1e4).amax(1)
        return self.head(torch.cat([a1, a2, mx], 1)).squeeze(1)


def best_f1(prob, y, grid=50):
    best = (0.0, 0.5)
    for t in torch.linspace(0.05, 0.95, grid).tolist():
        p = prob > t
        tp = (p & (y == 1)).sum().item()
        f1 = 2 * tp / max(p.sum().item() + (y == 1).sum().item(), 1)
        best = max(best, (f1, t))
    return best
