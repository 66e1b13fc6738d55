"""Action-chunk decoder of the bimanual pick-and-place policy.

A fixed number of learned action queries (one per control tick of the chunk)
reads the camera and proprioception tokens.  It is a pre-norm decoder layer:
cross-attention, then a two-layer MLP, then one linear map to joint targets.
Every head spreads its own unit of attention over the tokens.

Run at 10 Hz on the robot; 50 Hz joint targets come out of one call.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn


class ChunkCrossAttention(nn.Module):
    """Heads stay on their own axis after the query: logits are [B, A, H, K]."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.head_dim = width // heads
        self.to_q = nn.Linear(width, width)
        self.to_kv = nn.Linear(width, 2 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, actions: Tensor, tokens: Tensor, token_pad: Tensor | None = None) -> Tensor:
        b, a, _ = actions.shape
        n = tokens.shape[1]
        q = self.to_q(actions).view(b, a, self.heads, self.head_dim)
        k, v = self.to_kv(tokens).view(b, n, 2, self.heads, self.head_dim).unbind(2)

        logits = torch.einsum("bahd,bkhd->bahk", q, k) * self.head_dim ** -0.5
        if token_pad is not None:  # True where a camera token is missing
            logits = logits.masked_fill(token_pad[:, None, None, :], float("-inf"))
        attn = logits.flatten(2).softmax(dim=-1).view_as(logits)

        out = torch.einsum("bahk,bkhd->bahd", attn, v)
        return self.proj(out.flatten(2))


class ActionChunkDecoder(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4, chunk: int = 10, action_dim: int = 14):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(chunk, width) * 0.5)
        self.norm_q = nn.LayerNorm(width)
        self.norm_kv = nn.LayerNorm(width)
        self.cross = ChunkCrossAttention(width, heads)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.to_action = nn.Linear(width, action_dim)

    def forward(self, tokens: Tensor, token_pad: Tensor | None = None) -> Tensor:
        x = self.queries.unsqueeze(0).expand(tokens.shape[0], -1, -1)
        x = x + self.cross(self.norm_q(x), self.norm_kv(tokens), token_pad)
        x = x + self.mlp(self.norm_mlp(x))
        return self.to_action(x)


if __name__ == "__main__":
    policy = ActionChunkDecoder().eval()
    cams = torch.randn(2, 24, 32)
    pad = torch.zeros(2, 24, dtype=torch.bool)
    pad[1, 16:] = True
    print(policy(cams, pad).shape)
