"""Talking-heads attention (Shazeer et al., 2020), encoder flavour.

The logits are mixed across heads before the softmax and the probabilities are
mixed across heads after it.  After the second mixing the rows need not sum to one.
"""
import torch
from torch import nn


class TalkingHeads(nn.Module):
    def __init__(self, width: int, heads: int = 4):
        super().__init__()
        if width % heads:
            raise ValueError("width must be a multiple of heads")
        self.heads, self.dh = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.mix_logits = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.mix_probs = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        """x: (batch, tokens, width) -> same shape."""
        b, n, _ = x.shape
        # packed as (q | k | v), each of them heads-major
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / self.dh ** 0.5
        logits = torch.einsum("bhij,hg->bgij", logits, self.mix_logits)
        probs = logits.softmax(-1)
        probs = torch.einsum("bgij,gh->bhij", probs, self.mix_probs)
        y = torch.einsum("bhij,bhjd->bihd", probs, v)
        return self.out(y.reshape(b, n, -1))
