import torch
import torch.nn as nn


class MelDecoderAttention(nn.Module):
    """Autoregressive self-attention of a text-to-speech decoder.

    forward(x, past): x (B, L, dim) are the new frames, past = (k, v) of the frames generated so
    far, each (B, H, P, dim/H), or None. A frame attends to all earlier frames and to itself.
    Feeding a clip in pieces gives the same frames as feeding it at once.
    Returns y (B, L, dim) and the extended (k, v).
    """

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, past=None):
        B, L, dim = x.shape
        qkv = self.in_proj(x).view(B, L, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        S = k.shape[2]
        att = (q @ k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
        keep = torch.ones(L, S, dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~keep, float("-inf"))
        att = att.softmax(dim=-1)
        y = (att @ v).transpose(1, 2).reshape(B, L, dim)
        return self.out_proj(y), (k, v)
