"""NMT Deutsch -> Englisch mit Luong-Attention ("general"), Seminarprojekt.

Luong et al. 2015:   score(h_t, h_s) = h_t^T W_a h_s
                     a_t = softmax(score)
                     c_t = sum_s a_t(s) h_s
                     h~_t = tanh(W_c [c_t; h_t])            (Gl. 5)
Input feeding: h~_{t-1} wird an das naechste Eingabewort gehaengt.
"""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD = 0


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.rnn = nn.LSTM(emb, hid, batch_first=True)

    def forward(self, src):
        laengen = (src != PAD).sum(1).cpu()
        p = pack_padded_sequence(self.emb(src), laengen, batch_first=True, enforce_sorted=False)
        out, (h, c) = self.rnn(p)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=src.size(1))
        return out, (h[0], c[0])


class LuongAttention(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.W_a = nn.Linear(hid, hid, bias=False)
        self.W_c = nn.Linear(2 * hid, hid, bias=False)

    def forward(self, h_t, h_s, gueltig):
        """h_t (B, H), h_s (B, S, H), gueltig (B, S) bool: True = echtes Wort.
        Gibt den attentionalen Vektor h~_t (B, H) und die Gewichte (B, S) zurueck."""
        score = torch.bmm(self.W_a(h_s), h_t.unsqueeze(2)).squeeze(2)
        score = score.masked_fill(~gueltig, float("-inf"))
        a_t = torch.softmax(score, dim=-1)
        c_t = torch.bmm(a_t.unsqueeze(1), h_s).squeeze(1)
        h_tilde = self.W_c(torch.cat([c_t, h_t], dim=1))
        return h_tilde, a_t


class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.cell = nn.LSTMCell(emb + hid, hid)
        self.att = LuongAttention(hid)
        self.out = nn.Linear(hid, vocab, bias=False)

    def forward(self, trg, h_s, zustand, gueltig):
        feed = h_s.new_zeros(trg.size(0), h_s.size(2))
        logits = []
        for t in range(trg.size(1)):
            zustand = self.cell(torch.cat([self.emb(trg[:, t]), feed], 1), zustand)
            feed, _ = self.att(zustand[0], h_s, gueltig)
            logits.append(self.out(feed))
        return torch.stack(logits, 1)


class Seq2Seq(nn.Module):
    def __init__(self, v_src, v_trg, emb=16, hid=24):
        super().__init__()
        self.enc, self.dec = Encoder(v_src, emb, hid), Decoder(v_trg, emb, hid)

    def forward(self, src, trg):
        h_s, z = self.enc(src)
        return self.dec(trg, h_s, z, src != PAD)


if __name__ == "__main__":
    s = torch.tensor([[4, 5, 6, 0], [3, 2, 1, 7]])
    print(Seq2Seq(10, 12)(s, torch.randint(1, 12, (2, 5))).shape)
