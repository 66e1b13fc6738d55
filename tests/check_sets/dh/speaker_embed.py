import math
import torch
from torch import nn


class SpeakerEmbedder(nn.Module):
    """Utterance -> speaker vector.

    mel (B, T, n_mels), n_frames (B,); frames after n_frames are padding.
    One self-attention layer, then the mean over the real frames.
    """

    def __init__(self, n_mels=20, dim=32, heads=2, out=16):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(n_mels, dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, out)

    def mix(self, x, real):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in (q, k, v))
        s = q @ k.transpose(-1, -2) / math.sqrt(c // self.heads)
        s = s.masked_fill(real[:, None, None, :], torch.finfo(s.dtype).min)
        y = torch.softmax(s, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, mel, n_frames):
        real = torch.arange(mel.shape[1], device=mel.device)[None, :] < n_frames[:, None]
        x = self.inp(mel)
        x = self.norm(x + self.mix(x, real))
        keep = real.unsqueeze(-1)
        mean = (x * keep).sum(1) / keep.sum(1).clamp(min=1)
        return nn.functional.normalize(self.out(mean), dim=-1)
