import torch
from torch import nn


class Choir(nn.Module):
    """Talking-heads attention between two voices of a score.

    soprano (B, T, w) asks, alto (B, S, w) answers.
    rests (B, S): True where the alto has no note; never all of them.
    Heads are mixed once on the logits and once on the weights.
    """

    def __init__(self, w=12, voices=3):
        super().__init__()
        self.voices = voices
        self.ask, self.name, self.sing = (nn.Linear(w, w, bias=False) for _ in range(3))
        self.before = nn.Parameter(torch.eye(voices) + 0.3 * torch.randn(voices, voices))
        self.after = nn.Parameter(torch.eye(voices) + 0.3 * torch.randn(voices, voices))
        self.close = nn.Linear(w, w)

    def forward(self, soprano, alto, rests=None):
        n = self.voices
        a = self.ask(soprano).unflatten(-1, (n, -1))
        b = self.name(alto).unflatten(-1, (n, -1))
        c = self.sing(alto).unflatten(-1, (n, -1))
        g = torch.einsum("btnd,bsnd->bnts", a, b) / a.shape[-1] ** 0.5
        g = torch.einsum("bnts,nm->bmts", g, self.before)
        if rests is not None:
            g = g.masked_fill(rests[:, None, None], -torch.inf)
        g = torch.softmax(g, dim=-1)
        g = torch.einsum("bnts,nm->bmts", g, self.after)
        return self.close(torch.einsum("bnts,bsnd->btnd", g, c).flatten(2))
