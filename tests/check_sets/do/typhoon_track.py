"""Typhoon track forecaster: LSTM encoder, Luong attention, step-wise decoder.

past   (B, T, 4)   lat, lon, wind, pressure (standardised), 6-hourly
n_past (B,)        number of real rows in past (1 <= n <= T); the rest is zeros
hours  int         number of 6-h steps to forecast

Decoder step ("general" score):  s_j = h_t^T W e_j over the real past steps j,
a = softmax(s), c = sum_j a_j e_j, out = tanh(Wc [c ; h_t]).
Padding rows have weight 0.  Output (B, hours, 2): lat and lon.
"""
import torch
import torch.nn as nn


class TrackForecaster(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.encoder = nn.LSTM(4, hidden, batch_first=True)
        self.cell = nn.LSTMCell(2 + hidden, hidden)
        self.Wa = nn.Linear(hidden, hidden, bias=False)
        self.Wc = nn.Linear(2 * hidden, hidden, bias=False)
        self.fc = nn.Linear(hidden, 2)

    def encode(self, past, n_past):
        packed = nn.utils.rnn.pack_padded_sequence(past, n_past.cpu(), batch_first=True, enforce_sorted=False)
        e, (h, c) = self.encoder(packed)
        e, _ = nn.utils.rnn.pad_packed_sequence(e, batch_first=True, total_length=past.size(1))
        return e, h[0], c[0]

    def attend(self, h, e, mask):
        score = torch.einsum("bh,bth->bt", h, self.Wa(e))
        score = score * mask
        a = torch.softmax(score, dim=1)
        ctx = torch.einsum("bt,bth->bh", a, e)
        return torch.tanh(self.Wc(torch.cat([ctx, h], dim=1))), a

    def forward(self, past, n_past, hours):
        e, h, c = self.encode(past, n_past)
        steps = torch.arange(past.size(1), device=past.device)
        mask = (steps[None] < n_past[:, None]).to(past.dtype)
        idx = (n_past - 1).view(-1, 1, 1).expand(-1, 1, 2)
        y = past[..., :2].gather(1, idx).squeeze(1)
        feed = torch.zeros_like(h)
        track = []
        for _ in range(hours):
            h, c = self.cell(torch.cat([y, feed], dim=1), (h, c))
            feed, _ = self.attend(h, e, mask)
            y = y + self.fc(feed)
            track.append(y)
        return torch.stack(track, dim=1)
