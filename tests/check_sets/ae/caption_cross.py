import torch, torch.nn as nn, torch.nn.functional as F


class WordToRegion(nn.Module):
    """cross attention: words look at image regions"""
    def __init__(self, word_dim, region_dim, inner=64, n=4, p=0.1):
        super().__init__()
        self.n, self.p = n, p
        self.q = nn.Linear(word_dim, inner)
        self.kv = nn.Linear(region_dim, inner * 2)
        self.o = nn.Linear(inner, word_dim)
        self.gate = nn.Parameter(torch.ones(1))

    def forward(self, words, regions):
        q = self.q(words)
        k, v = self.kv(regions).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.n, -1)).transpose(1, 2) for t in (q, k, v))
        w = torch.matmul(q, k.transpose(2, 3)) / (q.shape[-1] ** 0.5)
        w = F.softmax(w, dim=-1)
        w = F.dropout(w, self.p)
        y = torch.matmul(w, v).transpose(1, 2).flatten(2)
        return words + self.gate * self.o(y)


class Captioner(nn.Module):
    def __init__(self, vocab, d=64, region_dim=128):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.GRU(d, d, batch_first=True)
        self.look = WordToRegion(d, region_dim)
        self.cls = nn.Linear(d, vocab)

    def forward(self, tokens, regions):
        h, _ = self.rnn(self.emb(tokens))
        return self.cls(self.look(h, regions))

    @torch.no_grad()
    def greedy(self, regions, bos, steps=10):
        self.eval()
        seq = torch.full((regions.size(0), 1), bos, dtype=torch.long)
        for _ in range(steps):
            nxt = self(seq, regions)[:, -1].argmax(-1, keepdim=True)
            seq = torch.cat([seq, nxt], 1)
        return seq
