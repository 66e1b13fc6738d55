import torch
import torch.nn as nn


class InterpretableMultiHeadAttention(nn.Module):
    """Temporal Fusion Transformer, section 4.4: each head has its own queries and keys, all heads share the values, and the
    heads are averaged, so that one matrix of weights can be read.  Decoder masking: a step sees itself and the past.

    x (batch, time, d_model) -> output (batch, time, d_model), weights (batch, time, time)
    """

    def __init__(self, n_head, d_model, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_k = d_model // n_head
        self.v_layer = nn.Linear(d_model, self.d_k, bias=False)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, self.d_k, bias=False) for _ in range(n_head)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, self.d_k, bias=False) for _ in range(n_head)])
        self.w_o = nn.Linear(self.d_k, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        T = x.shape[1]
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        vs = self.v_layer(x)
        weights = 0
        for q_layer, k_layer in zip(self.q_layers, self.k_layers):
            s = q_layer(x) @ k_layer(x).transpose(1, 2) / self.d_k ** 0.5
            weights = weights + s.masked_fill(future, -1e9).softmax(-1) / self.n_head
        return self.dropout(self.w_o(weights @ vs)), weights
