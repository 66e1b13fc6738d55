"""Non-causal WaveNet stack of the denoiser: dilated convolutions with a gate.

z = tanh(W_f * x + V_f c) . sigmoid(W_g * x + V_g c); the skip outputs of all layers are
summed.  c is a conditioning vector per clip (noise type), the same for all samples.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedLayer(nn.Module):
    def __init__(self, channels, skip, cond, kernel, dilation):
        super().__init__()
        pad = dilation * (kernel - 1) // 2
        self.conv = nn.Conv1d(channels, 2 * channels, kernel, padding=pad, dilation=dilation)
        self.cond = nn.Linear(cond, 2 * channels, bias=False)
        self.res = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, skip, 1)

    def forward(self, x, c):
        y = self.conv(x) + self.cond(c).unsqueeze(-1)
        value, gate = y.chunk(2, dim=1)
        z = torch.tanh(value) * torch.sigmoid(gate)
        return (x + self.res(z)) * 0.5 ** 0.5, self.skip(z)


class Denoiser(nn.Module):
    def __init__(self, channels=16, skip=12, cond=6, layers=6, cycle=3, kernel=3):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 1)
        self.layers = nn.ModuleList(
            GatedLayer(channels, skip, cond, kernel, 2 ** (i % cycle)) for i in range(layers)
        )
        self.out1 = nn.Conv1d(skip, skip, 1)
        self.out2 = nn.Conv1d(skip, 1, 1)

    def forward(self, wav, noise_type):
        """wav [B, T], noise_type [B, cond] -> cleaned wav [B, T]"""
        x = F.relu(self.inp(wav.unsqueeze(1)))
        total = 0
        for layer in self.layers:
            x, s = layer(x, noise_type)
            total = total + s
        y = self.out2(F.relu(self.out1(F.relu(total / len(self.layers) ** 0.5))))
        return wav - y.squeeze(1)
