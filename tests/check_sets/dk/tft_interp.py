"""Interpretable multi-head attention of the Temporal Fusion Transformer.

Demand planning, weekly data.  On purpose (Lim et al., eq. 14-16) all heads share ONE
value projection, only queries and keys are per head; the heads are AVERAGED:

    H_tilde = mean_h softmax( Q_h K_h^T / sqrt(d_attn) ) V W_V,      out = H_tilde W_H

with d_attn = d_model / n_head.  The mask lets a decoder step see itself and earlier
steps (encoder steps are all earlier).

InterpretableMHA(n_head, d_model)(x, n_known):
    x        [B, T, d_model]  encoder and decoder steps in time order
    n_known  int, number of encoder steps; only the other T - n_known steps ask
returns out [B, T - n_known, d_model] and weights [B, T - n_known, T] (mean over heads)
"""
import torch
from torch import nn


class InterpretableMHA(nn.Module):
    def __init__(self, n_head, d_model, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = self.d_v = d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_v)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(n_head)])
        self.w_h = nn.Linear(self.d_v, d_model, bias=False)
        self.drop = nn.Dropout(dropout)

    def get_mask(self, n_known, T, device):
        """True = forbidden"""
        steps = torch.arange(T, device=device)
        return steps[None, :] > steps[n_known:, None]

    def forward(self, x, n_known):
        T = x.size(1)
        ask = x[:, n_known:]
        forbidden = self.get_mask(n_known, T, x.device)
        v = self.v_layer(x)
        weights, outs = [], []
        for q_lin, k_lin in zip(self.q_layers, self.k_layers):
            score = torch.bmm(q_lin(ask), k_lin(x).transpose(1, 2)) / self.d_k ** 0.5
            w = torch.softmax(score.masked_fill(forbidden, float("-inf")), dim=-1)
            weights.append(w)
            outs.append(torch.bmm(self.drop(w), v))
        out = self.w_h(torch.stack(outs).mean(0))
        return self.drop(out), torch.stack(weights).mean(0)


class GateAddNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.glu = nn.Linear(d, 2 * d)
        self.norm = nn.LayerNorm(d)

    def forward(self, y, skip):
        return self.norm(skip + nn.functional.glu(self.glu(y), dim=-1))
