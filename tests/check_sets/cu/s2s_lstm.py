"""Date normaliser ("3 mai 1999" -> "1999-05-03"), LSTM seq2seq with additive attention.

src (B, S) ids, 0 = pad; tgt (B, T) decoder inputs. Alignment is Bahdanau's MLP on
[decoder state ; encoder state]; softmax runs over the source characters.
"""
import torch
import torch.nn as nn


class Score(nn.Module):
    def __init__(self, hid, enc):
        super().__init__()
        self.lin = nn.Linear(hid + enc, hid)
        self.v = nn.Linear(hid, 1, bias=False)

    def forward(self, h, mem, pad):
        hh = h.unsqueeze(1).expand(-1, mem.size(1), -1)
        energy = self.lin(torch.cat((hh, mem), dim=2))
        e = self.v(energy).squeeze(2)
        e = e.masked_fill(pad, torch.finfo(e.dtype).min)
        return torch.softmax(e, dim=1)


class DateNet(nn.Module):
    def __init__(self, n_in=40, n_out=14, emb=12, hid=20):
        super().__init__()
        self.ei = nn.Embedding(n_in, emb, padding_idx=0)
        self.eo = nn.Embedding(n_out, emb)
        self.enc = nn.LSTM(emb, hid, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(emb + 2 * hid, hid)
        self.score = Score(hid, 2 * hid)
        self.bridge = nn.Linear(2 * hid, hid)
        self.out = nn.Linear(3 * hid, n_out)

    def forward(self, src, tgt):
        """-> logits (B, T, n_out), alignments (B, T, S)"""
        pad = src.eq(0)
        mem, (hn, _) = self.enc(self.ei(src))
        h = torch.tanh(self.bridge(torch.cat((hn[0], hn[1]), 1)))
        c = torch.zeros_like(h)
        ys, al = [], []
        for t in range(tgt.size(1)):
            a = self.score(h, mem, pad)
            ctx = torch.bmm(a.unsqueeze(1), mem).squeeze(1)
            h, c = self.cell(torch.cat((self.eo(tgt[:, t]), ctx), 1), (h, c))
            ys.append(self.out(torch.cat((h, ctx), 1)))
            al.append(a)
        return torch.stack(ys, 1), torch.stack(al, 1)
