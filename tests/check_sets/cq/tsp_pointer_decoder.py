"""One decoding step of the attention model for routing problems (TSP / VRP).

After "Attention, Learn to Solve Routing Problems!" (Kool et al., ICLR 2019), trimmed for our
REINFORCE experiments.  The encoder is elsewhere, we only need its node embeddings here.
"""
import math

import torch
import torch.nn as nn


class GlimpsePointer(nn.Module):
    """Multi-head glimpse over the nodes followed by a single-head pointer.

    Args:
        embed_dim: node embedding size
        n_heads: heads of the glimpse
        tanh_clip: pointer logits are squashed to [-tanh_clip, tanh_clip] before masking
    """

    def __init__(self, embed_dim: int = 32, n_heads: int = 4, tanh_clip: float = 10.0):
        super().__init__()
        assert embed_dim % n_heads == 0
        self.embed_dim = embed_dim
        self.n_heads = n_heads
        self.tanh_clip = tanh_clip
        self.project_context = nn.Linear(embed_dim, embed_dim, bias=False)
        # glimpse key, glimpse value, logit key
        self.project_nodes = nn.Linear(embed_dim, 3 * embed_dim, bias=False)
        self.project_out = nn.Linear(embed_dim, embed_dim, bias=False)

    def _heads(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.n_heads, -1).permute(2, 0, 1, 3)  # (H, B, N, d)

    def forward(self, node_emb: torch.Tensor, context: torch.Tensor, visited: torch.Tensor):
        """
        node_emb: (B, N, D) encoder output
        context:  (B, D) embedding of the partial tour
        visited:  (B, N) bool, True = already in the tour and not selectable.
                  There is always at least one free node while decoding.
        returns:  (B, N) log-probabilities of the next node
        """
        glimpse_k, glimpse_v, logit_k = self.project_nodes(node_emb).chunk(3, dim=-1)
        glimpse_k, glimpse_v = self._heads(glimpse_k), self._heads(glimpse_v)
        q = self._heads(self.project_context(context)[:, None, :])  # (H, B, 1, d)

        compat = q @ glimpse_k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (H, B, 1, N)
        compat = compat.masked_fill(visited[None, :, None, :], float("-inf"))
        glimpse = torch.softmax(compat, dim=-1) @ glimpse_v  # (H, B, 1, d)
        glimpse = glimpse.permute(1, 2, 0, 3).reshape(node_emb.size(0), 1, self.embed_dim)
        final_q = self.project_out(glimpse)

        logits = (final_q @ logit_k.transpose(-2, -1)).squeeze(1) / math.sqrt(self.embed_dim)
        logits = torch.tanh(logits) * self.tanh_clip
        logits = logits.masked_fill(visited, float("-inf"))
        return torch.log_softmax(logits, dim=-1)
