from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ActionDecoderLayer(nn.Module):
    """DETR style decoder layer of the action-chunking policy.

    `queries` are the chunk slots (one per future action), `memory` is what the
    encoder made of joint state, latent style variable and camera tokens.

    Call ``policy.eval()`` before rolling out on the arm: the rollouts have to be
    reproducible from the same observation.
    """

    def __init__(self, d_model: int = 128, nhead: int = 4, d_ff: int = 256, dropout: float = 0.1):
        super().__init__()
        self.nhead = nhead
        self.p = dropout
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model)
        )
        self.n1 = nn.LayerNorm(d_model)
        self.n2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.nhead, -1)).transpose(1, 2)

    def cross_attend(self, queries: Tensor, memory: Tensor, valid: Optional[Tensor]) -> Tensor:
        q = self._split(self.w_q(queries))
        k = self._split(self.w_k(memory))
        v = self._split(self.w_v(memory))
        bias = None
        if valid is not None:
            bias = valid[:, None, None, :]  # True = camera token is there
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=self.p)
        return self.w_o(y.transpose(1, 2).flatten(2))

    def forward(self, queries: Tensor, memory: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        x = self.n1(queries + self.drop(self.cross_attend(queries, memory, valid)))
        x = self.n2(x + self.drop(self.ff(x)))
        return x


class ChunkHead(nn.Module):
    def __init__(self, d_model: int = 128, chunk: int = 20, dof: int = 7):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(chunk, d_model) * 0.1)
        self.layer = ActionDecoderLayer(d_model)
        self.to_action = nn.Linear(d_model, dof)

    def forward(self, memory: Tensor) -> Tensor:
        q = self.slots.expand(memory.shape[0], -1, -1)
        return self.to_action(self.layer(q, memory))
