"""RNNsearch (Bahdanau, Cho, Bengio) in the time-major style of the old Theano code.

Shapes: source annotations [S, B, C], states [B, H], masks [S, B] with 1.0 for words.
"""
import torch
import torch.nn as nn


class Annotator(nn.Module):
    """Bidirectional GRU, annotations h_j = [forward; backward]."""

    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.lookup = nn.Embedding(vocab, emb)
        self.fwd = nn.GRUCell(emb, hid)
        self.bwd = nn.GRUCell(emb, hid)
        self.init = nn.Linear(hid, hid)

    def run(self, cell, x, mask, steps):
        h = x.new_zeros(x.shape[1], cell.hidden_size)
        out = [None] * len(steps)
        for t in steps:
            m = mask[t].unsqueeze(1)
            h = m * cell(x[t], h) + (1 - m) * h
            out[t] = h
        return torch.stack(out)

    def forward(self, src, mask):
        x = self.lookup(src)
        f = self.run(self.fwd, x, mask, range(len(src)))
        b = self.run(self.bwd, x, mask, range(len(src) - 1, -1, -1))
        return torch.cat([f, b], dim=2), torch.tanh(self.init(b[0]))


class Alignment(nn.Module):
    """alpha_ij = softmax_j( v . tanh(W s_{i-1} + U h_j) ) over the words of each source.

    `U h_j` does not depend on the target position, so `precompute` does it once.
    """

    def __init__(self, state, annot, size):
        super().__init__()
        self.W = nn.Linear(state, size, bias=False)
        self.U = nn.Linear(annot, size)
        self.v = nn.Linear(size, 1, bias=False)

    def precompute(self, h):
        return self.U(h)

    def forward(self, s, h, Uh, mask):
        """s [B, H]; h [S, B, C]; Uh [S, B, A]; mask [S, B]. Gives context [B, C], alpha [S, B]."""
        e = self.v(torch.tanh(self.W(s) + Uh)).squeeze(2)
        e = e - e.max(dim=0, keepdim=True).values
        a = torch.exp(e) * mask
        a = a / a.sum(dim=0, keepdim=True)
        return (a.unsqueeze(2) * h).sum(dim=0), a


class ConditionalGRU(nn.Module):
    """Two GRU cells around the attention, as in dl4mt."""

    def __init__(self, vocab, emb, hid, annot):
        super().__init__()
        self.lookup = nn.Embedding(vocab, emb)
        self.gru1 = nn.GRUCell(emb, hid)
        self.att = Alignment(hid, annot, annot)
        self.gru2 = nn.GRUCell(annot, hid)
        self.readout = nn.Linear(emb + hid + annot, 2 * emb)
        self.logit = nn.Linear(emb, vocab)

    def step(self, y_prev, s, h, Uh, mask):
        y = self.lookup(y_prev)
        s1 = self.gru1(y, s)
        ctx, a = self.att(s1, h, Uh, mask)
        s2 = self.gru2(ctx, s1)
        t = self.readout(torch.cat([y, s2, ctx], dim=1))
        t = t.view(t.shape[0], -1, 2).max(dim=2).values             # maxout
        return self.logit(t), s2, a

    def forward(self, y, s, h, mask):
        """y [T, B], already shifted."""
        Uh = self.att.precompute(h)
        logits, aligns = [], []
        for t in range(len(y)):
            z, s, a = self.step(y[t], s, h, Uh, mask)
            logits.append(z)
            aligns.append(a)
        return torch.stack(logits), torch.stack(aligns)


class RNNSearch(nn.Module):
    def __init__(self, n_src, n_trg, emb=64, hid=128):
        super().__init__()
        self.enc = Annotator(n_src, emb, hid)
        self.dec = ConditionalGRU(n_trg, emb, hid, 2 * hid)

    def forward(self, src, src_mask, y):
        h, s0 = self.enc(src, src_mask)
        return self.dec(y, s0, h, src_mask)

    @torch.no_grad()
    def beam(self, src, bos, eos, width=5, max_len=60):
        """One sentence, src [S]."""
        mask = torch.ones(len(src), 1)
        h, s = self.enc(src.unsqueeze(1), mask)
        Uh = self.dec.att.precompute(h)
        live, done = [(0.0, [bos], s)], []
        for _ in range(max_len):
            cand = []
            for score, seq, st in live:
                z, st2, _ = self.dec.step(torch.tensor([seq[-1]]), st, h, Uh, mask)
                lp, ix = z.log_softmax(-1)[0].topk(width)
                cand += [(score + float(p), seq + [int(i)], st2) for p, i in zip(lp, ix)]
            cand.sort(key=lambda c: -c[0])
            live = []
            for c in cand[:width]:
                (done if c[1][-1] == eos else live).append(c)
            if not live:
                break
        best = max(done or live, key=lambda c: c[0] / len(c[1]))
        return best[1][1:]


def add_alignment_penalty(aligns, src_mask):
    """Doubly stochastic regulariser: every source word should get about one unit."""
    total = aligns.sum(0)
    return (((1 - total) ** 2) * src_mask).sum() / src_mask.sum()
