import torch
import torch.nn as nn


class SpeechAttention(nn.Module):
    """Multi-head attention of a speech encoder, heads folded into the batch.

    Args:
        dim: width of the frames
        num_heads: number of heads

    Inputs:
        x (B, T, dim): frames
        lengths (B,): how many frames of each utterance are real

    Output: (B, T, dim)
    """

    def __init__(self, dim: int = 24, num_heads: int = 4):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = dim // num_heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def fold(self, x):
        b, t, _ = x.shape
        x = x.view(b, t, self.num_heads, self.d_head).permute(2, 0, 1, 3)
        return x.reshape(self.num_heads * b, t, self.d_head)

    def forward(self, x, lengths=None):
        b, t, _ = x.shape
        q, k, v = self.fold(self.query(x)), self.fold(self.key(x)), self.fold(self.value(x))
        score = torch.bmm(q, k.transpose(1, 2)) / self.d_head ** 0.5
        if lengths is not None:
            pad = torch.arange(t, device=x.device)[None, :] >= lengths[:, None]
            pad = pad.unsqueeze(1).repeat_interleave(self.num_heads, dim=0)
            score = score.masked_fill(pad, -1e9)
        attn = torch.softmax(score, dim=-1)
        y = torch.bmm(attn, v).view(self.num_heads, b, t, self.d_head)
        return self.proj(y.permute(1, 2, 0, 3).reshape(b, t, -1))


class Subsample(nn.Module):
    def __init__(self, mels=10, dim=24):
        super().__init__()
        self.conv = nn.Conv1d(mels, dim, 3, stride=2, padding=1)

    def forward(self, mel, lengths):
        return torch.relu(self.conv(mel.transpose(1, 2))).transpose(1, 2), (lengths + 1) // 2


class SpeechEncoder(nn.Module):
    def __init__(self, mels=10, dim=24, num_heads=4, layers=2):
        super().__init__()
        self.sub = Subsample(mels, dim)
        self.attn = nn.ModuleList(SpeechAttention(dim, num_heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, mel, lengths):
        x, lengths = self.sub(mel, lengths)
        for a, n in zip(self.attn, self.norm):
            x = x + a(n(x), lengths)
        return x, lengths
