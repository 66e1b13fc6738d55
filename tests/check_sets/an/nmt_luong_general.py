"""Global attention (Luong, Pham, Manning 2015), score "general", input feeding.

Equation (5) of the paper:   h~_t = tanh(W_c [c_t ; h_t])
"""
import torch
import torch.nn as nn


def length_mask(lengths, max_len=None):
    max_len = max_len or int(lengths.max())
    return torch.arange(0, max_len, device=lengths.device).type_as(lengths).repeat(len(lengths), 1) \
        .lt(lengths.unsqueeze(1))


class StackedLSTM(nn.Module):
    def __init__(self, layers, n_in, n_hid, p):
        super().__init__()
        self.drop = nn.Dropout(p)
        self.cells = nn.ModuleList([nn.LSTMCell(n_in if i == 0 else n_hid, n_hid) for i in range(layers)])

    def forward(self, x, hidden):
        h0, c0 = hidden
        hs, cs = [], []
        for i, cell in enumerate(self.cells):
            h, c = cell(x, (h0[i], c0[i]))
            x = h if i + 1 == len(self.cells) else self.drop(h)
            hs.append(h)
            cs.append(c)
        return x, (torch.stack(hs), torch.stack(cs))


class InputFeedDecoder(nn.Module):
    """memory is time-major like everything here: (src_len, batch, dim)."""

    def __init__(self, vocab, emb, dim, layers=2, p=0.3):
        super().__init__()
        self.lut = nn.Embedding(vocab, emb, padding_idx=0)
        self.rnn = StackedLSTM(layers, emb + dim, dim, p)
        self.w_a = nn.Linear(dim, dim, bias=False)
        self.w_c = nn.Linear(2 * dim, dim, bias=False)
        self.drop = nn.Dropout(p)
        self.dim = dim

    def attend(self, h, memory, lengths):
        mem = memory.transpose(0, 1)
        score = torch.bmm(mem, self.w_a(h).unsqueeze(2)).squeeze(2)
        score = score.masked_fill(~length_mask(lengths, mem.size(1)), float("-inf"))
        align = torch.softmax(score, dim=1)
        c = torch.bmm(align.unsqueeze(1), mem).squeeze(1)
        h_tilde = self.w_c(torch.cat([c, h], dim=1))
        return h_tilde, align

    def forward(self, tgt, memory, lengths, hidden):
        """tgt (tgt_len, batch) -> outputs (tgt_len, batch, dim), alignments, hidden"""
        feed = memory.new_zeros(tgt.size(1), self.dim)
        outs, aligns = [], []
        for w in self.lut(tgt):
            h, hidden = self.rnn(torch.cat([w, feed], 1), hidden)
            feed, a = self.attend(h, memory, lengths)
            feed = self.drop(feed)
            outs.append(feed)
            aligns.append(a)
        return torch.stack(outs), torch.stack(aligns), hidden


class Generator(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.lin = nn.Linear(dim, vocab)

    def forward(self, x):
        return torch.log_softmax(self.lin(x), dim=-1)
