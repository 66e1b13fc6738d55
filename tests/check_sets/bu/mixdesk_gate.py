"""mixdesk_gate: an automatic fader bank for a 16-channel mixing desk.

Looks at all channels at once, squeezes each into three statistics, excites each
with a gain in (0, 1).  query/key vocabulary in the config is historic.
"""
import torch
from torch import nn

DEFAULT = dict(channels=16, key_dim=8, query_stats=3)


def crest(x, eps=1e-8):
    """peak / rms"""
    return x.abs().amax(-1) / (x.pow(2).mean(-1) + eps).sqrt()


def zero_crossings(x):
    return (x[..., 1:] * x[..., :-1] < 0).float().mean(-1)


def loudness(x, eps=1e-8):
    return torch.log10(x.pow(2).mean(-1) + eps)


class ChannelStrip(nn.Module):
    """audio (B, channels, samples), muted (B, channels) bool or None
    -> audio times gain, gains (B, channels)"""

    def __init__(self, cfg=None):
        super().__init__()
        c = {**DEFAULT, **(cfg or {})}
        wide = c["channels"] * c["query_stats"]
        self.scale = wide ** -0.5
        self.squeeze = nn.Linear(wide, c["key_dim"])
        self.excite = nn.Linear(c["key_dim"], c["channels"])

    def stats(self, audio):
        return torch.stack([loudness(audio), crest(audio), zero_crossings(audio)], dim=-1)

    def forward(self, audio, muted=None):
        s = self.stats(audio).flatten(1) * self.scale
        score = self.excite(torch.relu(self.squeeze(s)))
        weights = torch.sigmoid(score)
        if muted is not None:
            weights = weights.masked_fill(muted, 0.0)
        return audio * weights.unsqueeze(-1), weights


class StereoBus(nn.Module):
    def __init__(self, cfg=None):
        super().__init__()
        self.strip = ChannelStrip(cfg)
        n = {**DEFAULT, **(cfg or {})}["channels"]
        self.pan = nn.Parameter(torch.linspace(-1, 1, n))

    def forward(self, audio, muted=None):
        x, _ = self.strip(audio, muted)
        angle = (self.pan.clamp(-1, 1) + 1) * torch.pi / 4
        left = (x * angle.cos()[:, None]).sum(1)
        right = (x * angle.sin()[:, None]).sum(1)
        return torch.stack([left, right], 1)


if __name__ == "__main__":
    print(StereoBus()(torch.randn(2, 16, 400)).shape)
