"""Luong decoder with the "concat" score (EMNLP 2015, eq. 8 and 5).

score(h_t, h_s) = v_a . tanh(W_a [h_t ; h_s])          softmax over source positions
c_t             = sum_s a_t(s) h_s
h~_t            = tanh(W_c [c_t ; h_t])                 the attentional vector
logits          = W_s h~_t

forward(prev, hidden, enc): prev (B,) token ids; hidden (layers, B, H) GRU state;
enc (B, S, H) encoder states, all positions valid.
returns logits (B, V), hidden (layers, B, H), attn (B, S).
"""
import torch
import torch.nn as nn


class ConcatScore(nn.Module):
    def __init__(self, H):
        super().__init__()
        self.W_a = nn.Linear(2 * H, H)
        self.v_a = nn.Parameter(torch.rand(H) - 0.5)

    def forward(self, h_t, enc):
        S = enc.size(1)
        pair = torch.cat((h_t.unsqueeze(1).expand(-1, S, -1), enc), dim=2)
        energy = self.W_a(pair)
        return energy.matmul(self.v_a)


class LuongConcatDecoder(nn.Module):
    def __init__(self, vocab, H, layers=1, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, H)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(H, H, layers, batch_first=True)
        self.score = ConcatScore(H)
        self.W_c = nn.Linear(2 * H, H)
        self.W_s = nn.Linear(H, vocab)

    def forward(self, prev, hidden, enc):
        x = self.dropout(self.embedding(prev)).unsqueeze(1)
        rnn_out, hidden = self.gru(x, hidden)
        h_t = rnn_out.squeeze(1)
        attn = self.score(h_t, enc).softmax(dim=1)
        c_t = torch.bmm(attn.unsqueeze(1), enc).squeeze(1)
        h_tilde = self.W_c(torch.cat((c_t, h_t), dim=1))
        return self.W_s(h_tilde), hidden, attn
