"""What other arguments decide: masks that may be None, caps that are switched on; and what is no mask at all."""

from __future__ import annotations

import pytest

from overt.check.report import CallError
from swapped import Check, right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import torch
from torch import nn

class Windowed(nn.Module):
    """Attention in windows of an image."""
    def __init__(self, dim, num_heads, window_size):
        super().__init__()
        self.heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = q * self.scale @ k.transpose(-2, -1)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(b // nw, nw, self.heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.heads, n, n)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))
'''

SOURCE += '''
def capped(q, k, v, clamp=False, softcap=50.0):
    s = q @ k.mT / q.shape[-1] ** 0.5
    if clamp:
        s = softcap * torch.tanh(s / softcap)
    return s.softmax(-1) @ v

class Threshold(nn.Module):
    """Thresholds pixels.

    Where a pixel is masked, nothing is known of it; True blocks.
    """
    def forward(self, x):
        low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
        return torch.where(x > (low + high) / 2, x, torch.zeros_like(x))
'''

BOTH = [
    ("capped", "s = softcap * torch.tanh(s / softcap)", "softcap * torch.tanh(s / softcap)", "softcap_missing"),
    ("Windowed", "q * self.scale @", "q @", "scale_missing"),
    ("Windowed", ".transpose(1, 2).reshape(b", ".reshape(b", "merge_view"),
]


def test_what_gives_back_what_it_gets_is_no_mask(check: Check) -> None:
    with pytest.raises(CallError, match="no attention was found"):
        check("Threshold", SOURCE)


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
