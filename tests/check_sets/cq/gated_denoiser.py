"""Speech enhancement: gated dilated convolutions and a bidirectional LSTM predict a ratio mask."""
import torch
import torch.nn as nn


class GatedConvBlock(nn.Module):
    """y = conv_a(x) * sigmoid(conv_b(x)), residual, (B, C, T)"""

    def __init__(self, channels, dilation, kernel=3):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.query = nn.Conv1d(channels, channels, kernel, padding=pad, dilation=dilation)
        self.key = nn.Conv1d(channels, channels, kernel, padding=pad, dilation=dilation)
        self.norm = nn.GroupNorm(1, channels)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        h = self.norm(x)
        gate = torch.sigmoid(self.key(h))
        return x + self.mix(self.query(h) * gate)


class GatedDenoiser(nn.Module):
    """
    spec: (B, T, n_freq) magnitude spectrogram of noisy speech
    lengths: (B,) number of frames, the rest is padding
    returns the enhanced magnitude, (B, T, n_freq), zero at padded frames
    """

    def __init__(self, n_freq=33, channels=24, hidden=16, dilations=(1, 2, 4, 8)):
        super().__init__()
        self.inp = nn.Conv1d(n_freq, channels, 1)
        self.blocks = nn.ModuleList(GatedConvBlock(channels, d) for d in dilations)
        self.lstm = nn.LSTM(channels, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, n_freq)

    def forward(self, spec, lengths):
        T = spec.size(1)
        valid = torch.arange(T, device=spec.device)[None] < lengths[:, None]
        x = torch.log1p(spec).transpose(1, 2)
        x = self.inp(x) * valid[:, None]
        for block in self.blocks:
            x = block(x) * valid[:, None]
        packed = nn.utils.rnn.pack_padded_sequence(
            x.transpose(1, 2), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        h, _ = self.lstm(packed)
        h, _ = nn.utils.rnn.pad_packed_sequence(h, batch_first=True, total_length=T)
        mask = torch.sigmoid(self.out(h)) * valid[..., None]
        return spec * mask
