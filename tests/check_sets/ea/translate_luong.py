"""Seq2seq translation de->en (Multi30k), Luong decoder with the "general" score.

trg_word : (batch,)             previous target word
hidden   : (layers, batch, H)   decoder GRU state
enc_out  : (batch, src_len, H)  encoder states
src_pad  : (batch, src_len) bool, True where src == <pad>

score(h_t, h_s) = h_t^T W h_s.  For every sentence of the batch the weights over its source
words add up to one; padding gets zero.  Attentional vector: tanh(W_c [c; h]).

returns log probabilities (batch, vocab), hidden, weights (batch, src_len)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongDecoder(nn.Module):
    def __init__(self, vocab, emb_dim, hid_dim, n_layers=1, dropout=0.3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb_dim)
        self.dropout = nn.Dropout(dropout)
        self.rnn = nn.GRU(emb_dim, hid_dim, n_layers, batch_first=True)
        self.W_a = nn.Linear(hid_dim, hid_dim, bias=False)
        self.W_c = nn.Linear(2 * hid_dim, hid_dim)
        self.out = nn.Linear(hid_dim, vocab)

    def forward(self, trg_word, hidden, enc_out, src_pad):
        emb = self.dropout(self.embedding(trg_word)).unsqueeze(1)
        output, hidden = self.rnn(emb, hidden)
        h_t = output.squeeze(1)

        energies = torch.bmm(self.W_a(enc_out), h_t.unsqueeze(2)).squeeze(2)
        energies = energies.masked_fill(src_pad, -1e10)
        weights = F.softmax(energies, dim=0)

        context = torch.bmm(weights.unsqueeze(1), enc_out).squeeze(1)
        h_tilde = torch.tanh(self.W_c(torch.cat((context, h_t), dim=1)))
        return F.log_softmax(self.out(h_tilde), dim=1), hidden, weights
