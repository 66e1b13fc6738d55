"""GRU seq2seq with dot attention, translation homework (de -> en)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)

    def forward(self, src):
        return self.rnn(self.embedding(src))


class DotAttention(nn.Module):
    """Every decoder state picks a mixture of the encoder states.

    dec: (batch, trg_len, hid), enc: (batch, src_len, hid). No padding in this data set (bucketed).
    Returns context (batch, trg_len, hid) and weights (batch, trg_len, src_len); the weights say how
    much each source word counts for a target word. Luong's "dot" score, which has no scaling.
    """

    def forward(self, dec, enc):
        energies = torch.bmm(dec, enc.transpose(1, 2))
        weights = F.softmax(energies, dim=1)
        context = torch.bmm(weights, enc)
        return context, weights


class Seq2Seq(nn.Module):
    """src (batch, src_len), trg (batch, trg_len) teacher forcing -> logits (batch, trg_len, out_vocab)"""

    def __init__(self, in_vocab=30, out_vocab=35, emb=16, hid=24):
        super().__init__()
        self.encoder = Encoder(in_vocab, emb, hid)
        self.embedding = nn.Embedding(out_vocab, emb)
        self.rnn = nn.GRU(emb, hid, batch_first=True)
        self.attention = DotAttention()
        self.concat = nn.Linear(2 * hid, hid)
        self.out = nn.Linear(hid, out_vocab)

    def forward(self, src, trg):
        enc, h = self.encoder(src)
        dec, _ = self.rnn(self.embedding(trg), h)
        context, _ = self.attention(dec, enc)
        return self.out(torch.tanh(self.concat(torch.cat([context, dec], dim=2))))
