"""
Ice-quake detector: long single-station seismograms, banded attention.

Design notes
------------
1.  100 Hz, so after the strided stem a token is 0.16 s; an ice-quake is over in two or
    three seconds.  Each token attends to the `band` most recent tokens, *itself included*
    (band = 1 would be attention to oneself only).  Nothing from the future: the
    detector runs on the glacier in real time.
2.  Some tokens carry no data (telemetry gaps).  They are ordinary tokens with a learned
    embedding, hence no padding mask.
"""
import torch
import torch.nn as nn


class Stem(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv1d(3, width, 8, stride=4)
        self.c2 = nn.Conv1d(width, width, 8, stride=4)
        self.act = nn.GELU()

    def forward(self, x):
        x = nn.functional.pad(x, (7, 0))
        x = nn.functional.pad(self.act(self.c1(x)), (7, 0))
        return self.c2(x).transpose(1, 2)


class BandAttention(nn.Module):
    def __init__(self, width, num_heads, band, qk_norm=True):
        super().__init__()
        if width % num_heads != 0:
            raise ValueError("width must be divisible by num_heads")
        self.num_heads = num_heads
        self.head_dim = width // num_heads
        self.band = band
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)
        self.v_proj = nn.Linear(width, width)
        self.o_proj = nn.Linear(width, width)
        self.q_norm = nn.RMSNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.head_dim) if qk_norm else nn.Identity()

    def band_mask(self, length, device):
        """True = may attend."""
        pos = torch.arange(length, device=device)
        lag = pos.unsqueeze(1) - pos.unsqueeze(0)
        return (lag >= 0) & (lag <= self.band)

    def forward(self, hidden):
        """hidden: (batch, length, width) -> (batch, length, width)"""
        bsz, length, width = hidden.shape
        shape = (bsz, length, self.num_heads, self.head_dim)
        q = self.q_norm(self.q_proj(hidden).view(shape)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden).view(shape)).transpose(1, 2)
        v = self.v_proj(hidden).view(shape).transpose(1, 2)

        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim ** -0.5
        scores = scores.masked_fill(~self.band_mask(length, hidden.device), float("-inf"))
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        context = torch.matmul(probs, v)
        context = context.reshape(bsz, length, width)
        return self.o_proj(context)


class QuakeBlock(nn.Module):
    def __init__(self, width, num_heads, band):
        super().__init__()
        self.attn_norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attn = BandAttention(width, num_heads, band)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class QuakeDetector(nn.Module):
    def __init__(self, width=48, num_heads=4, depth=3, band=16):
        super().__init__()
        self.stem = Stem(width)
        self.gap = nn.Parameter(torch.zeros(width))
        self.blocks = nn.ModuleList([QuakeBlock(width, num_heads, band) for _ in range(depth)])
        self.norm = nn.RMSNorm(width)
        self.onset = nn.Linear(width, 1)

    def forward(self, wave, gaps=None):
        """wave (batch, 3, samples); gaps (batch, tokens) bool, True = telemetry was down"""
        x = self.stem(wave)
        if gaps is not None:
            x = torch.where(gaps[..., None], self.gap, x)
        for b in self.blocks:
            x = b(x)
        return self.onset(self.norm(x)).squeeze(-1)


def pick(logits, threshold=0.0, dead=10):
    """Indices of onsets, at least `dead` tokens apart."""
    out, last = [], -dead
    for i, v in enumerate(logits.tolist()):
        if v > threshold and i - last >= dead:
            out.append(i)
            last = i
    return out


if __name__ == "__main__":
    print(pick(QuakeDetector()(torch.randn(1, 3, 1600))[0]))
