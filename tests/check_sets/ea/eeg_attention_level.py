"""Attention level of a student from a one-channel EEG headband (bachelor thesis).

The device delivers 512 Hz raw values. `AttentionMeter` maps a window of 2 s to three classes:
0 = distracted, 1 = neutral, 2 = attentive.

raw: (batch, 1024) float, in microvolt.  Returns the class logits (batch, 3).

EEGNet-like: temporal convolution, squared, average pooled, log (i.e. log band power per filter),
then a GRU over the pooled frames; the last state is classified.
"""
import torch
from torch import nn


class AttentionMeter(nn.Module):
    def __init__(self, filters=16, kernel=65, hidden=24):
        super().__init__()
        self.bank = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm1d(filters)
        self.pool = nn.AvgPool1d(64, 32)
        self.gru = nn.GRU(filters, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, raw):
        x = raw - raw.mean(dim=1, keepdim=True)
        x = x / (x.std(dim=1, keepdim=True) + 1e-6)
        power = self.pool(self.bn(self.bank(x[:, None])) ** 2)
        _, h = self.gru(torch.log(power + 1e-6).transpose(1, 2))
        return self.head(h[0])
