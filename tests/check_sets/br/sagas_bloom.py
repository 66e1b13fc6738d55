"""Old Norse saga model: loading and running a layer of a fused-QKV, ALiBi checkpoint.

The checkpoint convention (it matters, there are two in the wild):
`query_key_value` has 3 * hidden output rows, ordered head by head --
    head 0: q rows, k rows, v rows; head 1: q rows, k rows, v rows; ...

Positions: linear biases, a key is penalised in proportion to how far back it lies.
Causal, with an optional past.
"""
import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KV = Tuple[Tensor, Tensor]


def build_slopes(n: int) -> Tensor:
    p = 2 ** math.floor(math.log2(n))
    base = 2 ** (-(2 ** -(math.log2(p) - 3)))
    slopes = [base ** i for i in range(1, p + 1)]
    if p != n:
        extra = 2 ** (-(2 ** -(math.log2(2 * p) - 3)))
        slopes += [extra ** i for i in range(1, 1 + 2 * (n - p), 2)]
    return torch.tensor(slopes)


class SagaAttention(nn.Module):
    def __init__(self, hidden: int, n_head: int, dropout: float = 0.0):
        super().__init__()
        self.n_head, self.head_dim = n_head, hidden // n_head
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.attention_dropout = nn.Dropout(dropout)
        self.register_buffer("slopes", build_slopes(n_head), persistent=False)

    def _split_heads(self, fused: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        b, t, _ = fused.shape
        fused = fused.view(b, t, 3, self.n_head, self.head_dim)
        q, k, v = fused.unbind(2)
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

    def _alibi(self, t: int, s: int, device) -> Tensor:
        query_pos = torch.arange(s - t, s, device=device)[:, None]
        key_pos = torch.arange(s, device=device)[None, :]
        return self.slopes[:, None, None] * (query_pos - key_pos)      # [n_head, t, s]

    def forward(self, x: Tensor, past: Optional[KV] = None) -> Tuple[Tensor, KV]:
        b, t, c = x.shape
        q, k, v = self._split_heads(self.query_key_value(x))
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        s = k.size(2)
        scores = torch.baddbmm(
            self._alibi(t, s, x.device).to(x.dtype).expand(b, -1, -1, -1).reshape(-1, t, s),
            q.reshape(-1, t, self.head_dim),
            k.reshape(-1, s, self.head_dim).transpose(1, 2),
            beta=1.0,
            alpha=1.0 / math.sqrt(self.head_dim),
        ).view(b, self.n_head, t, s)
        unseen = torch.ones(t, s, dtype=torch.bool, device=x.device).triu(s - t + 1)
        scores = scores.masked_fill(unseen, float("-inf"))
        probs = self.attention_dropout(F.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype))
        y = (probs @ v).transpose(1, 2).reshape(b, t, c)
        return self.dense(y), (k, v)


class SagaBlock(nn.Module):
    def __init__(self, hidden: int, n_head: int):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden)
        self.self_attention = SagaAttention(hidden, n_head)
        self.post_attention_layernorm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden))

    def forward(self, x: Tensor, past: Optional[KV] = None):
        y, kv = self.self_attention(self.input_layernorm(x), past)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), kv


def load_layer(block: SagaBlock, checkpoint: dict, index: int) -> SagaBlock:
    head = f"h.{index}."
    names = {k[len(head):]: v for k, v in checkpoint.items() if k.startswith(head)}
    names = {k.replace("dense_h_to_4h", "0").replace("dense_4h_to_h", "2"): v for k, v in names.items()}
    block.load_state_dict(names)
    return block


class SagaModel(nn.Module):
    def __init__(self, runes: int = 96, hidden: int = 48, n_head: int = 6, depth: int = 2):
        super().__init__()
        self.word_embeddings = nn.Embedding(runes, hidden)
        self.word_embeddings_layernorm = nn.LayerNorm(hidden)
        self.h = nn.ModuleList(SagaBlock(hidden, n_head) for _ in range(depth))
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, ids: Tensor, pasts: Optional[list] = None):
        x, out = self.word_embeddings_layernorm(self.word_embeddings(ids)), []
        for i, blk in enumerate(self.h):
            x, kv = blk(x, pasts[i] if pasts else None)
            out.append(kv)
        return self.ln_f(x) @ self.word_embeddings.weight.t(), out
