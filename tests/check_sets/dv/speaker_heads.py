"""Utterance embedding for the speaker verification recipe."""
import torch
import torch.nn as nn


class MultiHeadPool(nn.Module):
    """Self-attentive pooling with several heads (Zhu et al. style).

    x: (N, C, T) frame features, channel first. lens: (N,) valid frames (1..T), or None.
    Each head scores the frames with a small conv net (conv - tanh - conv), the scores are
    normalised with a softmax over the valid frames, and each head averages ITS OWN slice of
    channels: head h owns channels h*C/heads .. (h+1)*C/heads - 1.
    Returns (N, C).
    """

    def __init__(self, channels=40, heads=5, hidden=16):
        super().__init__()
        assert channels % heads == 0
        self.heads = heads
        self.score = nn.Sequential(nn.Conv1d(channels, hidden, 1), nn.Tanh(),
                                   nn.Conv1d(hidden, heads, 1, bias=False))

    def forward(self, x, lens=None):
        N, C, T = x.shape
        s = self.score(x)                                          # N, heads, T
        if lens is not None:
            late = torch.arange(T, device=x.device) >= lens.unsqueeze(1)
            s = s.masked_fill(late.unsqueeze(1), torch.finfo(s.dtype).min)
        w = s.softmax(dim=2)
        # every head's weight line is stretched over the channels it owns
        w = w.repeat_interleave(C // self.heads, dim=1)            # N, C, T
        return (w * x).sum(dim=2)


class SpeakerNet(nn.Module):
    """mel (N, 40, T) and lens -> unit length embedding (N, 64)"""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(40, 40, 1), nn.ReLU())
        self.pool = MultiHeadPool()
        self.emb = nn.Linear(40, 64)

    def forward(self, mel, lens=None):
        return nn.functional.normalize(self.emb(self.pool(self.front(mel), lens)), dim=-1)
