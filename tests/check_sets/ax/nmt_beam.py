"""Beam decoding for the small de-en models.

Tensors inside attention are [rows, heads, time, dim_head].  During search
``rows = sentences * beam`` with the beam index running fastest.
Padding masks follow the fairseq habit: True marks a PAD position.
"""
import math
from typing import Dict, List, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = Dict[str, Tensor]


class IncrementalAttention(nn.Module):
    """Causal self attention, or cross attention when ``memory`` is used.

    ``state`` is a dict owned by the caller.  Self attention appends to it,
    cross attention fills it once and reads it from then on.
    """

    def __init__(self, d_model: int, heads: int, cross: bool = False):
        super().__init__()
        assert d_model % heads == 0
        self.h, self.dh, self.cross = heads, d_model // heads, cross
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.h, self.dh)).transpose(1, 2)

    def forward(self, x: Tensor, memory: Optional[Tensor] = None,
                memory_pad: Optional[Tensor] = None, state: Optional[State] = None) -> Tensor:
        q = self._heads(self.wq(x)) / math.sqrt(self.dh)
        if self.cross:
            if state is not None and "k" in state:
                k, v = state["k"], state["v"]
            else:
                k, v = self._heads(self.wk(memory)), self._heads(self.wv(memory))
        else:
            k, v = self._heads(self.wk(x)), self._heads(self.wv(x))
            if state is not None and "k" in state:
                k = torch.cat([state["k"], k], dim=2)
                v = torch.cat([state["v"], v], dim=2)
        if state is not None:
            state["k"], state["v"] = k, v

        logits = q @ k.transpose(-1, -2)
        lowest = torch.finfo(logits.dtype).min
        if self.cross:
            if memory_pad is not None:
                logits = logits.masked_fill(memory_pad[:, None, None, :], lowest)
        else:
            tq, tk = q.size(2), k.size(2)
            if tq > 1:
                future = torch.ones(tq, tk, dtype=torch.bool, device=x.device).triu(tk - tq + 1)
                logits = logits.masked_fill(future, lowest)
        weights = F.softmax(logits.float(), dim=-1).type_as(v)
        return self.wo((weights @ v).transpose(1, 2).flatten(2))

    @staticmethod
    def reorder(state: State, rows: Tensor) -> None:
        for name in state:
            state[name] = state[name].index_select(0, rows)


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, heads: int, d_ff: int):
        super().__init__()
        self.self_attn = IncrementalAttention(d_model, heads)
        self.src_attn = IncrementalAttention(d_model, heads, cross=True)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, memory_pad, state=None):
        st = state if state is not None else {"self": None, "src": None}
        x = x + self.self_attn(self.n1(x), state=st["self"])
        x = x + self.src_attn(self.n2(x), memory, memory_pad, st["src"])
        return x + self.ff(self.n3(x))


class BeamDecoder(nn.Module):
    def __init__(self, vocab: int, d_model: int = 64, heads: int = 4, layers: int = 2, max_len: int = 128):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.layers = nn.ModuleList(DecoderLayer(d_model, heads, 4 * d_model) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.max_len = max_len

    def forward(self, ids, memory, memory_pad, states=None, start: int = 0):
        pos = torch.arange(start, start + ids.size(1), device=ids.device)
        x = self.tok(ids) + self.pos(pos)
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, memory_pad, None if states is None else states[i])
        return self.norm(x) @ self.tok.weight.t()

    @torch.no_grad()
    def search(self, memory: Tensor, memory_pad: Tensor, bos: int, eos: int,
               beam: int = 4, steps: int = 20) -> List[List[int]]:
        n = memory.size(0)
        memory = memory.repeat_interleave(beam, 0)
        memory_pad = memory_pad.repeat_interleave(beam, 0)
        states = [{"self": {}, "src": {}} for _ in self.layers]
        ids = torch.full((n * beam, 1), bos, dtype=torch.long, device=memory.device)
        total = torch.full((n, beam), float("-inf"), device=memory.device)
        total[:, 0] = 0.0
        base = torch.arange(n, device=memory.device)[:, None] * beam
        for t in range(min(steps, self.max_len - 1)):
            logp = self(ids[:, -1:], memory, memory_pad, states, start=t)[:, -1].log_softmax(-1)
            done = (ids[:, 1:] == eos).any(1)
            logp[done] = float("-inf")
            logp[done, eos] = 0.0
            vocab = logp.size(-1)
            total, flat = (total[..., None] + logp.view(n, beam, vocab)).flatten(1).topk(beam, dim=-1)
            rows = (base + flat // vocab).view(-1)
            ids = torch.cat([ids[rows], (flat % vocab).view(-1, 1)], dim=1)
            for st in states:
                IncrementalAttention.reorder(st["self"], rows)
                IncrementalAttention.reorder(st["src"], rows)
            if bool(((ids[:, 1:] == eos).any(1)).all()):
                break
        return ids.view(n, beam, -1)[:, 0].tolist()
