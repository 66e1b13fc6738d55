"""Hierarchical attention network for long petitions: words -> sentences -> document.

Ids: LongTensor [B, S, W] with 0 as filler, both for words and for whole sentences.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def run_packed(rnn, x, lens):
    """Run a bidirectional RNN over right-padded rows; empty rows give zeros."""
    B, L, _ = x.shape
    out = x.new_zeros(B, L, rnn.hidden_size * 2)
    live = (lens > 0).nonzero(as_tuple=True)[0]
    if live.numel():
        packed = pack_padded_sequence(x[live], lens[live].cpu(), batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(rnn(packed)[0], batch_first=True, total_length=L)
        out = out.index_copy(0, live, y)
    return out


class ContextPool(nn.Module):
    """u = tanh(W h + b);  a = softmax(u . c) over the real places;  pooled = sum a h

    A row without real places pools to zero.
    """

    def __init__(self, dim, att_dim):
        super().__init__()
        self.proj = nn.Linear(dim, att_dim)
        self.context = nn.Parameter(torch.randn(att_dim) * 0.1)

    def forward(self, h, real):
        score = torch.tanh(self.proj(h)) @ self.context
        score = score.masked_fill(~real, torch.finfo(score.dtype).min)
        a = torch.softmax(score, dim=-1)
        a = a * real.to(a.dtype)
        return torch.einsum("bl,bld->bd", a, h), a


class PetitionHAN(nn.Module):
    def __init__(self, vocab, classes, emb=50, hid=25, att=30, drop=0.2):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.word_rnn = nn.GRU(emb, hid, batch_first=True, bidirectional=True)
        self.word_pool = ContextPool(2 * hid, att)
        self.sent_rnn = nn.GRU(2 * hid, hid, batch_first=True, bidirectional=True)
        self.sent_pool = ContextPool(2 * hid, att)
        self.drop = nn.Dropout(drop)
        self.out = nn.Linear(2 * hid, classes)

    def forward(self, ids):
        B, S, W = ids.shape
        real = ids.ne(0)
        flat = real.view(B * S, W)
        h = run_packed(self.word_rnn, self.drop(self.emb(ids)).view(B * S, W, -1), flat.sum(1))
        sents, wa = self.word_pool(h, flat)
        sents = sents.view(B, S, -1)
        sreal = real.any(-1)
        h = run_packed(self.sent_rnn, sents, sreal.sum(1))
        doc, sa = self.sent_pool(h, sreal)
        return self.out(self.drop(doc)), {"word": wa.view(B, S, W), "sentence": sa}


def highlight(words, weights, k=3):
    """The k words with the most weight, in reading order."""
    k = min(k, len(words))
    top = sorted(torch.as_tensor(weights)[: len(words)].topk(k).indices.tolist())
    return [words[i] for i in top]
