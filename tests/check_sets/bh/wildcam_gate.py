"""Channel gate for the camera-trap classifier (runs on a Pi Zero at the feeder).

"Efficient channel attention": global average -> 1-D conv across channels ->
sigmoid -> rescale. Kernel width adapts to the channel count as in the paper.
"""
import math

import torch
import torch.nn as nn

SPECIES = ["fox", "badger", "roe deer", "boar", "hare", "empty"]


def eca_kernel(channels, gamma=2, b=1):
    t = int(abs((math.log2(channels) + b) / gamma))
    return t if t % 2 else t + 1


class ChannelAttention(nn.Module):
    """x (B, C, H, W) -> x * weight (B, C, 1, 1)"""

    def __init__(self, channels):
        super().__init__()
        k = eca_kernel(channels)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(self, x):
        w = self.pool(x).squeeze(-1).transpose(1, 2)
        w = torch.sigmoid(self.conv(w))
        return x * w.transpose(1, 2).unsqueeze(-1)


class DWBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.dw = nn.Conv2d(cin, cin, 3, stride, 1, groups=cin, bias=False)
        self.bn1 = nn.BatchNorm2d(cin)
        self.att = ChannelAttention(cin)
        self.pw = nn.Conv2d(cin, cout, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        act = nn.functional.relu6
        h = self.att(act(self.bn1(self.dw(x))))
        h = self.bn2(self.pw(h))
        return x + h if self.skip else h


class TrapNet(nn.Module):
    def __init__(self, widths=(16, 24, 24, 48)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, 2, 1)
        self.body = nn.Sequential(*[
            DWBlock(a, b, 2 if a != b else 1) for a, b in zip(widths[:-1], widths[1:])])
        self.fc = nn.Linear(widths[-1], len(SPECIES))

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean((2, 3)))


@torch.no_grad()
def label(net, img, min_conf=0.6):
    p = net.eval()(img[None]).softmax(-1)[0]
    i = int(p.argmax())
    return SPECIES[i] if p[i] >= min_conf else "unsure"


if __name__ == "__main__":
    print(label(TrapNet(), torch.rand(3, 96, 96)))
