"""Who speaks when: speaker queries over a meeting.

Heads are folded into the batch for torch.bmm.  Ordinary scaled dot-product attention.
"""
import math
import torch
from torch import nn


def frames_to_mask(n_frames, total):
    """True where the frame exists."""
    return torch.arange(total)[None] < n_frames[:, None]


class SpeakerCrossAttention(nn.Module):
    def __init__(self, d_model: int, heads: int):
        super().__init__()
        self.heads = heads
        self.d_head = d_model // heads
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_out = nn.Linear(d_model, d_model)

    def fold(self, x):
        """(B, T, D) -> (B*heads, T, d_head)"""
        b, t, _ = x.shape
        x = x.reshape(b, t, self.heads, self.d_head).permute(0, 2, 1, 3)
        return x.reshape(b * self.heads, t, self.d_head)

    def unfold(self, x, b):
        t = x.shape[1]
        x = x.reshape(b, self.heads, t, self.d_head).permute(0, 2, 1, 3)
        return x.reshape(b, t, self.heads * self.d_head)

    def forward(self, speakers, frames, exists=None):
        """speakers (B, S, D); frames (B, T, D); exists (B, T), True = real frame (>= 1 each)"""
        b = speakers.shape[0]
        q = self.fold(self.linear_q(speakers))
        k = self.fold(self.linear_k(frames))
        v = self.fold(self.linear_v(frames))
        score = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.heads)
        if exists is not None:
            m = exists[:, None, :].repeat(self.heads, 1, 1)
            score = score.masked_fill(~m, float("-inf"))
        ctx = torch.bmm(score.softmax(dim=-1), v)
        return self.linear_out(self.unfold(ctx, b))


class Diariser(nn.Module):
    def __init__(self, mel=40, d=32, heads=4, max_speakers=5):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(mel, d), nn.GELU(), nn.Linear(d, d))
        self.spk = nn.Parameter(torch.randn(max_speakers, d))
        self.att = SpeakerCrossAttention(d, heads)

    def forward(self, fbank, n_frames):
        x = self.front(fbank)
        s = self.spk.unsqueeze(0).expand(len(x), -1, -1)
        s = s + self.att(s, x, frames_to_mask(n_frames, x.shape[1]))
        return torch.sigmoid(x @ s.mT)


if __name__ == "__main__":
    net = Diariser()
    print(net(torch.randn(3, 50, 40), torch.tensor([50, 30, 12])).shape)
