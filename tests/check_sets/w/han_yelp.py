import torch
from torch import nn


class Pool_A(nn.Module):
    def __init__(self, hid, att):
        super().__init__()
        self.proj = nn.Linear(hid, att)
        self.ctx = nn.Linear(att, 1, bias=False)

    def forward(self, h, mask):
        # h: (n, len, hid), mask: (n, len) 1 for tokens, 0 for padding
        u = torch.tanh(self.proj(h))
        a = self.ctx(u).squeeze(-1)
        a = torch.softmax(a, dim=1)
        a = a * mask.float()
        return (a.unsqueeze(-1) * h).sum(1), a


class WordEncoder(nn.Module):
    def __init__(self, vocab, emb, hid, att):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.gru = nn.GRU(emb, hid, bidirectional=True, batch_first=True)
        self.pool = Pool_A(2 * hid, att)

    def forward(self, words):
        mask = words != 0
        h, _ = self.gru(self.emb(words))
        return self.pool(h, mask)


class HAN(nn.Module):
    """Hierarchical attention network, docs: (batch, sentences, words) with 0 = pad"""

    def __init__(self, vocab=100, n_classes=5, emb=32, hid=16, att=24):
        super().__init__()
        self.word = WordEncoder(vocab, emb, hid, att)
        self.sent_gru = nn.GRU(2 * hid, hid, bidirectional=True, batch_first=True)
        self.sent_pool = Pool_A(2 * hid, att)
        self.fc = nn.Linear(2 * hid, n_classes)

    def forward(self, docs):
        b, s, w = docs.shape
        sent_vec, word_att = self.word(docs.view(b * s, w))
        sent_vec = sent_vec.view(b, s, -1)
        sent_mask = (docs != 0).any(-1)
        h, _ = self.sent_gru(sent_vec)
        doc, sent_att = self.sent_pool(h, sent_mask)
        return self.fc(doc), word_att.view(b, s, w), sent_att
