"""Pyramidal BLSTM listener: the encoder half of an end-to-end speech recogniser.

Every layer joins two neighbouring frames before its BLSTM, so the time axis is halved per layer;
an odd last frame is dropped.  A CTC head on top gives characters directly (no decoder).
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class PyramidLayer(nn.Module):
    def __init__(self, in_dim, hidden):
        super().__init__()
        self.lstm = nn.LSTM(2 * in_dim, hidden, batch_first=True, bidirectional=True)

    def forward(self, x, lengths):
        b, t, f = x.shape
        x = x[:, : t - t % 2].reshape(b, t // 2, 2 * f)
        lengths = (lengths // 2).clamp(min=1)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        out, _ = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return out, lengths


class Listener(nn.Module):
    """(B, T, mel) -> log-probs (B, T / 2**n, vocab) and the shortened lengths"""

    def __init__(self, mel=20, hidden=16, n_layers=2, vocab=30):
        super().__init__()
        dims = [mel] + [2 * hidden] * n_layers
        self.layers = nn.ModuleList([PyramidLayer(d, hidden) for d in dims[:-1]])
        self.gate = nn.Linear(2 * hidden, 2 * hidden)
        self.head = nn.Linear(2 * hidden, vocab)

    def forward(self, mel, lengths):
        x = mel
        for layer in self.layers:
            x, lengths = layer(x, lengths)
        x = x * torch.sigmoid(self.gate(x))
        return self.head(x).log_softmax(dim=-1), lengths


def greedy_ctc(logp, lengths, blank=0):
    texts = []
    for row, n in zip(logp.argmax(-1).tolist(), lengths.tolist()):
        prev, s = blank, []
        for c in row[:n]:
            if c != blank and c != prev:
                s.append(c)
            prev = c
        texts.append(s)
    return texts


if __name__ == "__main__":
    net = Listener()
    lp, n = net(torch.randn(2, 21, 20), torch.tensor([21, 13]))
    print(lp.shape, n, greedy_ctc(lp, n))
