"""Incremental decoder self-attention with beam reordering (fairseq flavoured)."""
from typing import Dict, Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F

State = Dict[str, Tensor]


class IncrementalSelfAttention(nn.Module):
    """Causal. With ``state`` one token at a time is fed and the keys and values of the
    former ones are kept in it, [beams, heads, steps, head_dim]."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def _shape(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, self.hd)).transpose(1, 2)

    def forward(self, x: Tensor, state: Optional[State] = None) -> Tensor:
        q = self._shape(self.q_proj(x)) * self.hd ** -0.5
        k, v = self._shape(self.k_proj(x)), self._shape(self.v_proj(x))
        if state is not None:
            if "prev_key" in state:
                k = torch.cat([state["prev_key"], k], dim=2)
                v = torch.cat([state["prev_value"], v], dim=2)
            state["prev_key"], state["prev_value"] = k, v
        logits = q @ k.mT
        T, S = logits.shape[-2:]
        ahead = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        probs = F.softmax(logits.masked_fill(ahead, float("-inf")), dim=-1)
        return self.out_proj((probs @ v).transpose(1, 2).flatten(2))

    def reorder_incremental_state(self, state: State, new_order: Tensor) -> None:
        """After each beam step: row i of the state becomes former row new_order[i]."""
        if "prev_key" in state:
            state["prev_key"] = state["prev_key"].index_select(0, new_order)


class DecoderLayer(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.self_attn = IncrementalSelfAttention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x, state=None):
        x = x + self.self_attn(self.norm1(x), state)
        return x + self.fc2(F.relu(self.fc1(self.norm2(x))))


class BeamLM(nn.Module):
    def __init__(self, vocab: int, dim: int = 32, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(DecoderLayer(dim, heads) for _ in range(layers))

    def forward(self, ids, states=None):
        x = self.emb(ids)
        for i, l in enumerate(self.layers):
            x = l(x, None if states is None else states[i])
        return x @ self.emb.weight.T

    @torch.no_grad()
    def beam_search(self, bos: int, beam: int, steps: int):
        ids = torch.full((beam, 1), bos)
        score = torch.full((beam,), float("-inf"))
        score[0] = 0.0
        states: list[State] = [{} for _ in self.layers]
        for _ in range(steps):
            lp = self(ids[:, -1:], states)[:, -1].log_softmax(-1)
            total = (score[:, None] + lp).flatten()
            score, flat = total.topk(beam)
            order, tok = flat // lp.shape[1], flat % lp.shape[1]
            ids = torch.cat([ids[order], tok[:, None]], dim=1)
            for l, s in zip(self.layers, states):
                l.self_attn.reorder_incremental_state(s, order)
        return ids, score
