"""Document tower of the dual encoder: words -> sentences -> document with the
hierarchical attention of Yang et al. (NAACL 2016)."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class ContextPooling(nn.Module):
    """
    u_t = tanh(W h_t + b)
    a_t = softmax_t(u_t . u_ctx)
    s   = sum_t a_t h_t

    u_ctx is one learned vector, the "what is the informative word" query.
    """

    def __init__(self, size, att):
        super().__init__()
        self.proj = nn.Linear(size, att)
        self.context = nn.Parameter(torch.randn(att) * 0.1)

    def forward(self, h, lengths):
        u = torch.tanh(self.proj(h))
        score = u.matmul(self.context)                       # (n, t)
        t = torch.arange(h.size(1), device=h.device)
        score = score.masked_fill(t >= lengths.unsqueeze(1), -1e9)
        a = score.softmax(dim=1)
        return (a.unsqueeze(2) * h).sum(dim=1), a


class BiGRU(nn.Module):
    def __init__(self, d_in, d_hid):
        super().__init__()
        self.rnn = nn.GRU(d_in, d_hid, bidirectional=True, batch_first=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=x.size(1))
        return out


class DocumentTower(nn.Module):
    def __init__(self, vocab=5000, emb=32, hid=16, att=24, out=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.word_rnn, self.word_pool = BiGRU(emb, hid), ContextPooling(2 * hid, att)
        self.sent_rnn, self.sent_pool = BiGRU(2 * hid, hid), ContextPooling(2 * hid, att)
        self.head = nn.Linear(2 * hid, out)

    def forward(self, docs):
        """docs: (docs, sentences, words) ids, 0 is padding; every document has >= 1 sentence"""
        d, s, w = docs.shape
        n_words = (docs > 0).sum(-1).view(-1)
        n_sents = ((docs > 0).sum(-1) > 0).sum(-1)
        x = self.emb(docs.view(d * s, w))
        h = self.word_rnn(x, n_words.clamp(min=1))
        sents, _ = self.word_pool(h, n_words.clamp(min=1))
        h = self.sent_rnn(sents.view(d, s, -1), n_sents)
        doc, weights = self.sent_pool(h, n_sents)
        return nn.functional.normalize(self.head(doc), dim=-1), weights
