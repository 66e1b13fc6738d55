import torch
import torch.nn as nn


def weigh(score, keep):
    """softmax over the last axis restricted to keep; rows with nothing to keep are zero"""
    low = torch.finfo(score.dtype).min
    p = torch.softmax(torch.where(keep, score, torch.full_like(score, low)), dim=-1)
    return torch.where(keep, p, torch.zeros_like(p))


class Level(nn.Module):
    def __init__(self, inp, hid):
        super().__init__()
        self.rnn = nn.GRU(inp, hid, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * hid, 2 * hid)
        self.ctx = nn.Parameter(torch.randn(2 * hid) * 0.1)

    def forward(self, x, keep):
        n = keep.sum(1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(x, n, batch_first=True, enforce_sorted=False)
        h, _ = self.rnn(packed)
        h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True, total_length=x.shape[1])
        a = weigh(torch.tanh(self.proj(h)) @ self.ctx, keep)
        return torch.einsum("bt,bth->bh", a, h), a


class Dokument(nn.Module):
    """Hierarchical attention network (Yang et al. 2016) for court decisions.

    ids [B, S, W] token ids, 0 is padding (only at the end of a sentence); sentences without any
    token are padding too (only at the end of a document).
    Returns logits [B, classes], word weights [B, S, W], sentence weights [B, S]. Padding has
    weight 0; a padded sentence has only zero word weights.
    """

    def __init__(self, vocab, emb, hid, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.word = Level(emb, hid)
        self.sent = Level(2 * hid, hid)
        self.out = nn.Linear(2 * hid, classes)

    def forward(self, ids):
        B, S, W = ids.shape
        keep_w = ids.ne(0)
        vec, aw = self.word(self.emb(ids.reshape(B * S, W)), keep_w.reshape(B * S, W))
        doc, a_s = self.sent(vec.reshape(B, S, -1), keep_w.any(-1))
        return self.out(doc), aw.reshape(B, S, W), a_s
