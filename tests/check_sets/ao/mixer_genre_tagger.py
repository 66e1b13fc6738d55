"""Genre tagging on GTZAN with an MLP-Mixer over mel patches (no transformer, cheaper on CPU)."""
import torch
from torch import nn


class TimeMixer(nn.Module):
    """mixes frames with a small MLP along the time axis, same weights for each channel"""

    def __init__(self, frames, hidden):
        super().__init__()
        self.up = nn.Linear(frames, hidden)
        self.down = nn.Linear(hidden, frames)
        self.act = nn.GELU()

    def forward(self, x):
        # x [batch, frames, channels]
        y = x.transpose(1, 2)
        y = self.down(self.act(self.up(y)))
        return y.transpose(1, 2)


class ChannelMixer(nn.Module):
    def __init__(self, channels, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels, hidden), nn.GELU(), nn.Linear(hidden, channels))

    def forward(self, x):
        return self.net(x)


class MixerBlock(nn.Module):
    def __init__(self, frames, channels, ratio=(0.5, 4)):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.time = TimeMixer(frames, int(frames * ratio[0]))
        self.chan = ChannelMixer(channels, int(channels * ratio[1]))

    def forward(self, x):
        x = x + self.time(self.n1(x))
        return x + self.chan(self.n2(x))


class GenreNet(nn.Module):
    GENRES = "blues classical country disco hiphop jazz metal pop reggae rock".split()

    def __init__(self, mels=64, frames=96, channels=64, depth=4):
        super().__init__()
        self.embed = nn.Linear(mels, channels)
        self.blocks = nn.Sequential(*[MixerBlock(frames, channels) for _ in range(depth)])
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, len(self.GENRES))

    def forward(self, mel):
        x = self.blocks(self.embed(mel.transpose(1, 2)))
        return self.head(self.norm(x).mean(1))

    @torch.no_grad()
    def tag(self, mel, k=3):
        p = self(mel).softmax(-1)
        v, i = p.topk(k, -1)
        return [[(self.GENRES[b], float(a)) for a, b in zip(r, s)] for r, s in zip(v, i)]
