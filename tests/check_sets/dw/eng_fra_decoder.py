"""Attention decoder for the English-French exercise.

One step: the previous word and the decoder state are compared with EVERY encoder output, the
comparison gives one score per source word,

    score_j = w . tanh(A [emb ; hidden] + B enc_j),

a softmax over the real source words gives the weights (they sum to one), and the weighted mean of
the encoder outputs goes into the GRU together with the embedding.

forward(word (N,), hidden (N, H), enc (N, L, H), src_mask (N, L))
    src_mask is 1.0 for real source words, 0.0 for padding; L <= max_len.
returns log-probabilities (N, V), hidden (N, H), weights (N, L)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttnDecoder(nn.Module):
    def __init__(self, H, V, max_len=12):
        super().__init__()
        self.emb = nn.Embedding(V, H)
        self.attn = nn.Sequential(nn.Linear(2 * H, H), nn.Tanh(), nn.Linear(H, max_len))
        self.attn_combine = nn.Linear(2 * H, H)
        self.gru = nn.GRUCell(H, H)
        self.out = nn.Linear(H, V)

    def forward(self, word, hidden, enc, src_mask):
        L = enc.shape[1]
        e = self.emb(word)
        scores = self.attn(torch.cat((e, hidden), 1))[:, :L]
        weights = F.softmax(scores, dim=1)
        weights = weights * src_mask
        context = torch.bmm(weights.unsqueeze(1), enc)[:, 0]

        x = F.relu(self.attn_combine(torch.cat((e, context), 1)))
        hidden = self.gru(x, hidden)
        return F.log_softmax(self.out(hidden), dim=1), hidden, weights
