"""Answer to "How do I feed the context back into my GRU decoder?"

Complete decoder for the toy date-translation task (Bahdanau et al. 2015):

    e_ij  = v^T tanh(W s_{i-1} + U h_j)
    a_ij  = softmax over the source positions j (padding excluded)
    c_i   = sum_j a_ij h_j
    s_i   = GRU([emb(y_{i-1}); c_i], s_{i-1})

Everything is batch first.  Teacher forcing only, sampling is left to the reader.
"""
import torch
import torch.nn as nn


class BahdanauDecoder(nn.Module):
    def __init__(self, vocab, emb=16, enc=24, dec=20, att=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.init = nn.Linear(enc, dec)
        self.W = nn.Linear(dec, att, bias=False)
        self.U = nn.Linear(enc, att, bias=True)
        self.v = nn.Linear(att, 1, bias=False)
        self.gru = nn.GRUCell(emb + enc, dec)
        self.out = nn.Linear(dec + enc, vocab)

    def look(self, s, H, UH, lens):
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + UH)).squeeze(-1)      # (B, S)
        beyond = torch.arange(H.size(1), device=H.device)[None, :] >= lens[:, None]
        e = e.masked_fill(beyond, float("-inf"))
        a = torch.softmax(e, dim=1)
        return (a.unsqueeze(-1) * H).sum(1), a

    def forward(self, y, H, lens):
        """
        y:    (B, T) long, target tokens already shifted right (starts with <s>)
        H:    (B, S, enc) encoder states
        lens: (B,) number of real source positions of every sample, >= 1
        returns logits (B, T, vocab) and attention (B, T, S)
        """
        UH = self.U(H)                      # does not change during decoding
        s = torch.tanh(self.init(H[:, 0]))
        logits, maps = [], []
        for tok in self.emb(y).unbind(1):
            c, a = self.look(s, H, UH, lens)
            s = self.gru(torch.cat((tok, c), -1), s)
            logits.append(self.out(torch.cat((s, c), -1)))
            maps.append(a)
        return torch.stack(logits, 1), torch.stack(maps, 1)
