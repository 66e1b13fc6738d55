"""Pointer-generator summariser with coverage (See et al. 2017), for Swedish news."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, UNK, START, STOP = 0, 1, 2, 3


def extend_ids(words, vocab):
    """Ids of an article; words out of the vocabulary get len(vocab), len(vocab)+1, ..."""
    oov, ids = [], []
    for w in words:
        if w in vocab:
            ids.append(vocab[w])
        else:
            if w not in oov:
                oov.append(w)
            ids.append(len(vocab) + oov.index(w))
    return ids, oov


class Encoder(nn.Module):
    def __init__(self, emb, hid):
        super().__init__()
        self.lstm = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.rh, self.rc = nn.Linear(2 * hid, hid), nn.Linear(2 * hid, hid)

    def forward(self, e, lens):
        packed = nn.utils.rnn.pack_padded_sequence(e, lens.cpu(), batch_first=True, enforce_sorted=False)
        out, (h, c) = self.lstm(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=e.size(1))
        flat = lambda t: t.transpose(0, 1).reshape(t.size(1), -1)
        return out, (F.relu(self.rh(flat(h))), F.relu(self.rc(flat(c))))


class CoverageAttention(nn.Module):
    """e_i = v^T tanh(W_h h_i + W_s s_t + w_c c_i + b); the softmax is renormalised
    over the real words after masking."""

    def __init__(self, hid):
        super().__init__()
        n = 2 * hid
        self.Wh = nn.Linear(n, n, bias=False)
        self.Ws = nn.Linear(n, n)
        self.wc = nn.Linear(1, n, bias=False)
        self.v = nn.Linear(n, 1, bias=False)

    def forward(self, state, enc, real, coverage):
        """state (h, c) each (B, hid); enc (B, S, 2*hid); real (B, S) 1.0 word, 0.0 padding
        -> context (B, 2*hid), a (B, S), new coverage (B, S)"""
        s = self.Ws(torch.cat(state, 1)).unsqueeze(1)
        e = self.v(torch.tanh(self.Wh(enc) + s + self.wc(coverage.unsqueeze(2)))).squeeze(2)
        a = F.softmax(e, dim=1) * real
        a = a / a.sum(1, keepdim=True)
        ctx = torch.bmm(a.unsqueeze(1), enc).squeeze(1)
        return ctx, a, coverage + a


class PointerGenerator(nn.Module):
    def __init__(self, vocab, emb=64, hid=64):
        super().__init__()
        self.vocab = vocab
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.encoder = Encoder(emb, hid)
        self.att = CoverageAttention(hid)
        self.x = nn.Linear(emb + 2 * hid, emb)
        self.cell = nn.LSTMCell(emb, hid)
        self.pgen = nn.Linear(2 * hid + 2 * hid + emb, 1)
        self.o1, self.o2 = nn.Linear(3 * hid, hid), nn.Linear(hid, vocab)

    def step(self, y, state, ctx, enc, real, cov, src_ext, n_oov):
        x = self.x(torch.cat([self.emb(y.clamp(min=0).where(y < self.vocab, torch.full_like(y, UNK))), ctx], 1))
        state = self.cell(x, state)
        ctx, a, new_cov = self.att(state, enc, real, cov)
        p = torch.sigmoid(self.pgen(torch.cat([ctx, *state, x], 1)))
        pv = F.softmax(self.o2(self.o1(torch.cat([state[0], ctx], 1))), 1) * p
        pv = F.pad(pv, (0, n_oov)).scatter_add(1, src_ext, a * (1 - p))
        cov_loss = torch.minimum(a, cov).sum(1)
        return pv, state, ctx, new_cov, cov_loss

    def forward(self, src, src_ext, lens, tgt, n_oov, lam=1.0):
        real = (src != PAD).float()
        enc, state = self.encoder(self.emb(src), lens)
        ctx, cov = enc.new_zeros(enc.size(0), enc.size(2)), torch.zeros_like(real)
        loss = 0.0
        for t in range(tgt.size(1) - 1):
            pv, state, ctx, cov, cl = self.step(tgt[:, t], state, ctx, enc, real, cov, src_ext, n_oov)
            gold = tgt[:, t + 1]
            nll = -torch.log(pv.gather(1, gold[:, None]).squeeze(1) + 1e-12)
            m = (gold != PAD).float()
            loss = loss + ((nll + lam * cl) * m).sum() / m.sum().clamp(min=1)
        return loss
