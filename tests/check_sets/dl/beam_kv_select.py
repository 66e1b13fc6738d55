"""Causal self-attention for beam search with a growing cache (fairseq fashion).

incremental_state = {"prev_key": (N, H, P, d), "prev_value": (N, H, P, d)}, N = all beams of
all sentences.  After the search has chosen its hypotheses, reorder() rearranges the state so
that row n holds the history of the hypothesis which row n now goes on with.
"""
import torch
from torch import Tensor, nn


class IncrementalSelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)     # q, k, v
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, incremental_state: dict) -> Tensor:
        """x (N, T, embed_dim): the newest T tokens of every hypothesis; they attend to
        that hypothesis's earlier tokens and causally to one another.  Returns the same shape;
        incremental_state is updated ({} at the start)."""
        q, k, v = map(self._split, self.in_proj(x).chunk(3, dim=-1))
        if "prev_key" in incremental_state:
            k = torch.cat([incremental_state["prev_key"], k], dim=2)
            v = torch.cat([incremental_state["prev_value"], v], dim=2)
        incremental_state["prev_key"] = k
        incremental_state["prev_value"] = v
        t, s = q.size(2), k.size(2)
        weights = torch.matmul(q * self.head_dim ** -0.5, k.transpose(2, 3))
        future = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        weights = torch.softmax(weights.masked_fill(future, float("-inf")), dim=-1)
        attn = torch.matmul(weights, v).transpose(1, 2).flatten(2)
        return self.out_proj(attn)

    def reorder(self, incremental_state: dict, new_order: Tensor) -> dict:
        """new_order (N,) int64: row n goes on from old row new_order[n]."""
        result = dict(incremental_state)
        if "prev_key" in result:
            result["prev_key"] = result["prev_key"].index_select(0, new_order)
        return result
