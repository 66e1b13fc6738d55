import torch
from torch import nn


class QuakePredictor(nn.Module):
    """Online P-wave picker: one causal ALiBi layer over spectrogram frames.

    frames (B, T, mel) -> pick probability per frame (B, T), computed from the
    frames up to and including it; older frames count less and less.
    """

    def __init__(self, mel=40, dim=32, heads=4):
        super().__init__()
        assert heads & (heads - 1) == 0
        self.heads = heads
        self.inp = nn.Linear(mel, dim)
        self.qk = nn.Linear(dim, 2 * dim)
        self.val = nn.Linear(dim, dim)
        self.post = nn.Linear(dim, dim)
        self.pick = nn.Linear(dim, 1)
        slopes = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1))
        self.register_buffer("slopes", slopes.view(heads, 1, 1))

    def forward(self, frames):
        x = torch.relu(self.inp(frames))
        B, T, D = x.shape
        q, k = self.qk(x).chunk(2, dim=-1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, self.val(x)))
        pos = torch.arange(T, device=x.device)
        age = pos[:, None] - pos[None, :]
        s = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        s = s + self.slopes * age
        unseen = torch.ones(T, T, device=x.device, dtype=torch.bool).triu(diagonal=2)
        s = s.masked_fill(unseen, float("-inf"))
        y = (torch.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(B, T, D)
        x = x + self.post(y)
        return torch.sigmoid(self.pick(x)).squeeze(-1)
