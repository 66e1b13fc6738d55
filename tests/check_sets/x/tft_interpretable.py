from typing import Optional, Tuple

import torch
import torch.nn as nn


class ScaledDotProductAttention(nn.Module):
    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, q, k, v, mask: Optional[torch.Tensor] = None):
        attn = torch.bmm(q, k.permute(0, 2, 1)) / k.size(-1) ** 0.5
        if mask is not None:
            attn = attn.masked_fill(mask, -1e9)
        attn = torch.softmax(attn, dim=2)
        return torch.bmm(self.dropout(attn), v), attn


class InterpretableMultiHeadAttention(nn.Module):
    """Temporal Fusion Transformer: all heads share one value projection and are averaged.

    q: (batch, horizon, d_model), k, v: (batch, history + horizon, d_model)
    mask: (batch, horizon, history + horizon), True = hidden
    """

    def __init__(self, n_head: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        self.n_head, self.d_model = n_head, d_model
        self.d_k = self.d_v = d_model // n_head
        self.dropout = nn.Dropout(p=dropout)
        self.v_layer = nn.Linear(self.d_model, self.d_v)
        self.q_layers = nn.ModuleList([nn.Linear(self.d_model, self.d_k) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(self.d_model, self.d_k) for _ in range(n_head)])
        self.attention = ScaledDotProductAttention()
        self.w_h = nn.Linear(self.d_v, self.d_model, bias=False)

    def forward(self, q, k, v, mask: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        heads, attns = [], []
        vs = self.v_layer(v)
        for i in range(self.n_head):
            head, attn = self.attention(self.q_layers[i](q), self.k_layers[i](k), vs, mask)
            heads.append(self.dropout(head))
            attns.append(attn)
        head = torch.stack(heads, dim=2) if self.n_head > 1 else heads[0].unsqueeze(2)
        attn = torch.stack(attns, dim=2)
        outputs = torch.mean(head, dim=2)
        outputs = self.dropout(self.w_h(outputs))
        return outputs, attn
