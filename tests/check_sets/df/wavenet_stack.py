import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedResidualStack(nn.Module):
    """WaveNet residual stack: dilated causal convolutions, tanh * sigmoid gates, summed skips.

    wave (B, C_in, T) -> logits (B, classes, T)
    """

    def __init__(self, c_in=1, ch=16, skip=24, classes=32, dilations=(1, 2, 4, 8)):
        super().__init__()
        self.dilations = dilations
        self.start = nn.Conv1d(c_in, ch, 1)
        self.filt = nn.ModuleList(nn.Conv1d(ch, ch, 2, dilation=d) for d in dilations)
        self.gate = nn.ModuleList(nn.Conv1d(ch, ch, 2, dilation=d) for d in dilations)
        self.res = nn.ModuleList(nn.Conv1d(ch, ch, 1) for _ in dilations)
        self.skip = nn.ModuleList(nn.Conv1d(ch, skip, 1) for _ in dilations)
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, classes, 1))

    def forward(self, wave):
        x = self.start(wave)
        total = 0
        for d, f, g, r, s in zip(self.dilations, self.filt, self.gate, self.res, self.skip):
            past = F.pad(x, (d, 0))
            z = torch.tanh(f(past)) * torch.sigmoid(g(past))
            total = total + s(z)
            x = x + r(z)
        return self.end(total)
