"""Shifted window attention for retinal scans, circular variant.

The scans are unwrapped panoramas of the eyeball, so opposite borders really are neighbours
and no mask is needed after the roll.
"""
import torch
import torch.nn as nn


class ShiftedWindows(nn.Module):
    """(B, C, H, W) -> (B, C, H, W), H and W multiples of ``ws``.

    The map is rolled by ``shift`` up and left, split in ws x ws windows, every
    pixel attends to its window, and the result is rolled back to where it came
    from before the residual is added.
    """

    def __init__(self, C=16, H=2, ws=4, shift=1):
        super().__init__()
        self.H, self.ws, self.shift = H, ws, shift
        self.ln = nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.o = nn.Linear(C, C)

    def attend(self, t):
        n, l, c = t.shape
        q, k, v = self.qkv(t).reshape(n, l, 3, self.H, c // self.H).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (c // self.H) ** -0.5, dim=-1)
        return self.o((a @ v).transpose(1, 2).reshape(n, l, c))

    def forward(self, x):
        b, c, h, w = x.shape
        s = self.ws
        z = self.ln(x.permute(0, 2, 3, 1))
        z = torch.roll(z, shifts=(-self.shift, -self.shift), dims=(1, 2))
        z = z.view(b, h // s, s, w // s, s, c).transpose(2, 3).reshape(-1, s * s, c)
        z = self.attend(z)
        z = z.view(b, h // s, w // s, s, s, c).transpose(2, 3).reshape(b, h, w, c)
        z = torch.roll(z, shifts=(-self.shift, -self.shift), dims=(1, 2))
        return x + z.permute(0, 3, 1, 2)
