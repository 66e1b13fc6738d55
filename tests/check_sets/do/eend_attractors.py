"""Speaker diarisation with encoder-decoder attractors (EEND-EDA, BLSTM variant).

feats (B, T, F) log-mel; lens (B,) real frames, 1 <= lens <= T.
frames -> BLSTM embeddings -> LSTM encoder reads them, LSTM decoder fed with zeros
emits max_spk attractors; activity[b, t, s] = sigmoid( emb[b, t] . attractor[b, s] )
and exist[b, s] = sigmoid(linear(attractor)).  Several speakers can be active at
the same time, so the activities of a frame do not sum to one.
Frames at and after lens are set to activity 0.
"""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class EENDEDA(nn.Module):
    def __init__(self, feat, hidden=16, max_spk=4):
        super().__init__()
        self.max_spk = max_spk
        self.emb = nn.LSTM(feat, hidden, batch_first=True, bidirectional=True)
        self.proj = nn.Linear(2 * hidden, hidden)
        self.enc = nn.LSTM(hidden, hidden, batch_first=True)
        self.dec = nn.LSTM(hidden, hidden, batch_first=True)
        self.exist = nn.Linear(hidden, 1)

    def embed(self, feats, lens):
        p = pack_padded_sequence(feats, lens.cpu(), batch_first=True, enforce_sorted=False)
        y, _ = self.emb(p)
        y, _ = pad_packed_sequence(y, batch_first=True, total_length=feats.size(1))
        return torch.tanh(self.proj(y))

    def attractors(self, emb, lens):
        p = pack_padded_sequence(emb, lens.cpu(), batch_first=True, enforce_sorted=False)
        _, state = self.enc(p)
        zeros = emb.new_zeros(emb.size(0), self.max_spk, emb.size(2))
        a, _ = self.dec(zeros, state)
        return a

    def forward(self, feats, lens):
        emb = self.embed(feats, lens)
        att = self.attractors(emb, lens)
        act = torch.sigmoid(torch.matmul(emb, att.transpose(1, 2)))
        real = torch.arange(feats.size(1), device=feats.device)[None, :] < lens[:, None]
        exist = torch.sigmoid(self.exist(att)).squeeze(-1)
        return act * real.unsqueeze(-1), exist
