import torch
import torch.nn as nn


class BahdanauDecoderStep(nn.Module):
    """One step of the decoder of Bahdanau et al. (2015): e_j = v^T tanh(W [s; h_j]), then a GRU cell on [y; c].

    y (B, emb), s (B, dec), h (B, S, enc) -> new state (B, dec), weights (B, S)
    """

    def __init__(self, emb, enc, dec):
        super().__init__()
        self.attn = nn.Linear(enc + dec, dec)
        self.v = nn.Linear(dec, 1, bias=False)
        self.rnn = nn.GRUCell(emb + enc, dec)

    def forward(self, y, s, h):
        repeated = s.unsqueeze(1).repeat(1, h.shape[1], 1)
        energy = self.attn(torch.cat((repeated, h), dim=2))
        weights = torch.softmax(self.v(energy).squeeze(2), dim=1)
        context = torch.bmm(weights.unsqueeze(1), h).squeeze(1)
        return self.rnn(torch.cat((y, context), dim=1), s), weights
