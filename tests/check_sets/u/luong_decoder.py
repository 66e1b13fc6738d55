import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongDecoder(nn.Module):
    def __init__(self, vocab=30, emb=10, hidden=14):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRUCell(emb + hidden, hidden)
        self.Wa = nn.Linear(hidden, hidden, bias=False)
        self.Wc = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def attend(self, h, enc, lens):
        # h: (B, H), enc: (B, T, H), lens: number of real source words in each sentence
        score = torch.bmm(enc, self.Wa(h).unsqueeze(2)).squeeze(2)
        mask = torch.arange(enc.size(1), device=enc.device).unsqueeze(0) < lens.unsqueeze(1)
        score = score * mask
        align = F.softmax(score, dim=1)
        return torch.bmm(align.unsqueeze(1), enc).squeeze(1), align

    def step(self, y, h, feed, enc, lens):
        h = self.rnn(torch.cat([self.embedding(y), feed], 1), h)
        ctx, align = self.attend(h, enc, lens)
        feed = torch.tanh(self.Wc(torch.cat([ctx, h], 1)))
        return F.log_softmax(self.out(feed), 1), h, feed, align

    def forward(self, ys, h, enc, lens):
        feed = torch.zeros_like(h)
        outs = []
        for t in range(ys.size(1)):
            o, h, feed, _ = self.step(ys[:, t], h, feed, enc, lens)
            outs.append(o)
        return torch.stack(outs, 1)
