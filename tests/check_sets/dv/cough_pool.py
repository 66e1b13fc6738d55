"""Cough detector: recurrent encoder and attention pooling over the frames of a recording."""
import torch
import torch.nn as nn


class CoughNet(nn.Module):
    """
    mel     (B, T, 64)  log-mel frames, right padded
    lengths (B,) long   number of real frames of each recording, 1 <= lengths <= T;
                        frames 0 .. lengths-1 are real, later ones are padding
    Returns (logit (B,), weights (B, T)). The weights are a softmax of the frame scores
    v . tanh(W h_t) over the real frames; padded frames have weight zero and do not influence the
    logit.
    """

    def __init__(self, n_mels=64, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(n_mels, hidden, batch_first=True)
        self.W = nn.Linear(hidden, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)
        self.cls = nn.Sequential(nn.Dropout(0.3), nn.Linear(hidden, 1))

    def forward(self, mel, lengths):
        h, _ = self.rnn(mel)
        score = self.v(torch.tanh(self.W(h))).squeeze(-1)
        steps = torch.arange(mel.size(1), device=mel.device)
        valid = steps.unsqueeze(0) <= lengths.unsqueeze(1)
        score = score.masked_fill(~valid, float("-inf"))
        weights = torch.softmax(score, dim=-1)
        pooled = torch.bmm(weights.unsqueeze(1), h).squeeze(1)
        return self.cls(pooled).squeeze(-1), weights


def pad_batch(clips):
    """list of (t_i, 64) tensors -> (mel, lengths)"""
    lengths = torch.tensor([len(c) for c in clips])
    return nn.utils.rnn.pad_sequence(clips, batch_first=True), lengths
