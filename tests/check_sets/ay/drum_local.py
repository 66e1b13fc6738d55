"""groovebox: next-step prediction for drum patterns.

A pattern is a roll [time, 9 instruments]; the grid has 16 steps per bar. Most of what
a drummer does next follows from the last bars, so attention is local.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

INSTRUMENTS = ["kick", "snare", "clap", "rim", "hat_c", "hat_o", "tom_l", "tom_h", "crash"]
STEPS_PER_BAR = 16


def swing(roll, amount):
    """Micro timing: delay of every second 16th, in fractions of a step."""
    delay = torch.zeros(roll.shape[:-1])
    delay[..., 1::2] = amount
    return delay


class LocalGrooveAttention(nn.Module):
    """Causal sliding-window attention.

    Each step sees `window` steps in all: itself and the `window - 1` steps just
    before it. With window = 16 that is exactly the running bar.
    """

    def __init__(self, channels, heads, window=STEPS_PER_BAR, attn_drop=0.0):
        super().__init__()
        if channels % heads:
            raise ValueError(f"{channels=} not divisible by {heads=}")
        self.h = heads
        self.window = window
        self.attn_drop = attn_drop
        self.in_proj = nn.Linear(channels, 3 * channels)
        self.out_proj = nn.Linear(channels, channels)
        self._band = None

    def band(self, t, device):
        """[t, t] bool, True where attention is allowed."""
        if self._band is None or self._band.shape[0] != t or self._band.device != device:
            i = torch.arange(t, device=device)
            ago = i[:, None] - i[None, :]
            self._band = (ago >= 0) & (ago <= self.window)
        return self._band

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.in_proj(x).view(b, t, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=self.band(t, x.device),
            dropout_p=self.attn_drop if self.training else 0.0,
        )
        return self.out_proj(y.transpose(1, 2).reshape(b, t, c))


class GrooveBlock(nn.Module):
    def __init__(self, channels, heads, window):
        super().__init__()
        self.ln1 = nn.LayerNorm(channels)
        self.att = LocalGrooveAttention(channels, heads, window)
        self.ln2 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 2 * channels), nn.SiLU(), nn.Linear(2 * channels, channels))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Drummer(nn.Module):
    def __init__(self, channels=64, heads=4, depth=4, window=STEPS_PER_BAR):
        super().__init__()
        self.inp = nn.Linear(len(INSTRUMENTS), channels)
        self.beat = nn.Embedding(STEPS_PER_BAR, channels)
        self.blocks = nn.ModuleList(GrooveBlock(channels, heads, window) for _ in range(depth))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, len(INSTRUMENTS))

    def forward(self, roll):
        t = roll.shape[1]
        beat = torch.arange(t, device=roll.device) % STEPS_PER_BAR
        x = self.inp(roll) + self.beat(beat)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))

    def loss(self, roll):
        return F.binary_cross_entropy_with_logits(self(roll[:, :-1]), roll[:, 1:])

    @torch.no_grad()
    def jam(self, roll, bars=2, heat=1.0):
        self.eval()
        for _ in range(bars * STEPS_PER_BAR):
            p = torch.sigmoid(self(roll)[:, -1:] / heat)
            roll = torch.cat([roll, torch.bernoulli(p)], dim=1)
        return roll


def four_on_the_floor(bars=1):
    roll = torch.zeros(1, bars * STEPS_PER_BAR, len(INSTRUMENTS))
    roll[:, ::4, INSTRUMENTS.index("kick")] = 1
    roll[:, 4::8, INSTRUMENTS.index("clap")] = 1
    roll[:, 2::4, INSTRUMENTS.index("hat_o")] = 1
    return roll


if __name__ == "__main__":
    d = Drummer()
    print(d.jam(four_on_the_floor()).shape)
