"""Attention decoder of Bahdanau, Cho & Bengio (2015), one GRU layer.

forward(tgt, enc, src_len)
    tgt     (B, T) token ids fed to the decoder (teacher forcing, starts with <s>)
    enc     (B, S, E) encoder states
    src_len (B,) lengths, >= 1; positions >= length are padding and get no weight
returns logits (B, T, V) and alignments (B, T, S).

score(s_{t-1}, h_j) = v^T tanh(W s_{t-1} + U h_j); the context goes into the GRU together
with the embedding, and into the readout.
"""
import torch
import torch.nn as nn


class BahdanauDecoder(nn.Module):
    def __init__(self, vocab, emb, enc_dim, hid, att=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.W = nn.Linear(hid, att, bias=False)
        self.U = nn.Linear(enc_dim, att)
        self.v = nn.Linear(att, 1, bias=False)
        self.init = nn.Linear(enc_dim, hid)
        self.cell = nn.GRUCell(emb + enc_dim, hid)
        self.readout = nn.Linear(hid + enc_dim + emb, vocab)

    def attend(self, s, enc, pre, pad):
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + pre)).squeeze(-1)      # (B, S)
        a = torch.softmax(e.masked_fill(pad, float("-inf")), dim=1)
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a

    def forward(self, tgt, enc, src_len):
        pad = torch.arange(enc.size(1), device=enc.device)[None, :] >= src_len[:, None]
        pre = self.U(enc)                                   # does not depend on t
        mean = enc.masked_fill(pad[..., None], 0).sum(1) / src_len[:, None]
        s = torch.tanh(self.init(mean))
        outs, alis = [], []
        for y in self.emb(tgt).unbind(1):
            c, a = self.attend(s, enc, pre, pad)
            s = self.cell(torch.cat([y, c], -1), s)
            outs.append(self.readout(torch.cat([s, c, y], -1)))
            alis.append(a)
        return torch.stack(outs, 1), torch.stack(alis, 1)
