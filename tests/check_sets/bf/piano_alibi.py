# Piano continuation model (MAESTRO), events are tokens. ALiBi so we can sample longer
# pieces than we train on (Press et al. 2022).
import torch
from torch import nn

cfg = {
    "n_events": 388,
    "width": 48,
    "n_heads": 6,
    "layers": 2,
}


def alibi_slopes(n_heads):
    """Head slopes of the ALiBi paper (same values as the authors' get_slopes, for any
    number of heads)."""
    return torch.tensor([2 ** (-8 * (h + 1) / n_heads) for h in range(n_heads)])


class EventAttention(nn.Module):
    def __init__(self, width=48, n_heads=6):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("slopes", alibi_slopes(n_heads), persistent=False)

    def forward(self, x):
        B, T, E = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        dist = pos[:, None] - pos[None, :]               # how far back
        bias = -self.slopes[:, None, None] * dist
        bias = bias.masked_fill(dist < 0, float("-inf"))
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
        y = scores.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, E))


class PianoModel(nn.Module):
    def __init__(self, c=cfg):
        super().__init__()
        self.emb = nn.Embedding(c["n_events"], c["width"])
        self.att = nn.ModuleList([EventAttention(c["width"], c["n_heads"]) for _ in range(c["layers"])])
        self.ff = nn.ModuleList([nn.Sequential(nn.Linear(c["width"], 96), nn.ReLU(), nn.Linear(96, c["width"]))
                                 for _ in range(c["layers"])])
        self.head = nn.Linear(c["width"], c["n_events"])

    def forward(self, ev):
        x = self.emb(ev)
        for a, f in zip(self.att, self.ff):
            x = x + a(x)
            x = x + f(x)
        return self.head(x)


if __name__ == "__main__":
    print(PianoModel()(torch.randint(0, 388, (1, 16))).shape)
