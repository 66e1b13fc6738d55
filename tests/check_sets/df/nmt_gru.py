import torch
import torch.nn as nn
import torch.nn.functional as F


class AttnDecoderGRU(nn.Module):
    """Seq2seq with Bahdanau attention, Multi30k exercise.

    step inputs: token (B,), hidden (B, H), enc_out (B, S, 2H), src_mask (B, S) with True for words and
    False for <pad>. Returns logits (B, V), hidden (B, H) and the weights over the source words (B, S).
    """

    def __init__(self, V, E=16, H=24, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(V, E)
        self.W_h = nn.Linear(H, H, bias=False)
        self.W_s = nn.Linear(2 * H, H)
        self.v = nn.Linear(H, 1, bias=False)
        self.rnn = nn.GRUCell(E + 2 * H, H)
        self.fc = nn.Linear(E + 3 * H, V)
        self.dropout = nn.Dropout(dropout)

    def score(self, hidden, enc_out, src_mask):
        energy = self.v(torch.tanh(self.W_h(hidden).unsqueeze(1) + self.W_s(enc_out))).squeeze(2)
        energy = energy.masked_fill(src_mask, -1e9)
        return F.softmax(energy, dim=0)

    def forward(self, token, hidden, enc_out, src_mask):
        emb = self.dropout(self.embedding(token))
        a = self.score(hidden, enc_out, src_mask)
        ctx = torch.bmm(a.unsqueeze(1), enc_out).squeeze(1)
        hidden = self.rnn(torch.cat([emb, ctx], 1), hidden)
        return self.fc(torch.cat([hidden, ctx, emb], 1)), hidden, a
