"""AutoInt: automatic feature interaction with self-attention (Song et al., CIKM 2019)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class InteractingLayer(nn.Module):
    """Multi-head scaled dot-product self-attention between the feature fields.

    Input shape: (batch, fields, emb). Output shape: (batch, fields, heads * att_dim).
    In every head, field m attends to all fields, weights softmax(<q_m, k_n> / sqrt(att_dim)).
    """

    def __init__(self, emb=16, att_dim=8, heads=2, use_res=True):
        super().__init__()
        self.heads, self.att_dim = heads, att_dim
        self.units = heads * att_dim
        self.W_query = nn.Linear(emb, self.units, bias=False)
        self.W_key = nn.Linear(emb, self.units, bias=False)
        self.W_value = nn.Linear(emb, self.units, bias=False)
        self.W_res = nn.Linear(emb, self.units, bias=False) if use_res else None
        self.scale = self.units ** 0.5

    def forward(self, x):
        batch, fields, _ = x.shape
        query = self.W_query(x).view(batch, self.heads, fields, self.att_dim)
        key = self.W_key(x).view(batch, self.heads, fields, self.att_dim)
        value = self.W_value(x).view(batch, self.heads, fields, self.att_dim)

        scores = torch.matmul(query, key.transpose(-2, -1)) / self.scale
        weights = F.softmax(scores, dim=-1)
        out = torch.matmul(weights, value)
        out = out.transpose(1, 2).reshape(batch, fields, self.units)

        if self.W_res is not None:
            out = out + self.W_res(x)
        return F.relu(out)


class AutoInt(nn.Module):
    """field_ids: (batch, n_fields) -> logit (batch,)"""

    def __init__(self, field_sizes=(10, 20, 5, 8, 12), emb=16, att_dim=8, heads=2, layers=2):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, emb) for n in field_sizes)
        units = heads * att_dim
        self.layers = nn.ModuleList(
            InteractingLayer(emb if i == 0 else units, att_dim, heads) for i in range(layers)
        )
        self.out = nn.Linear(units * len(field_sizes), 1)

    def forward(self, field_ids):
        x = torch.stack([t(field_ids[:, i]) for i, t in enumerate(self.tables)], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.out(x.flatten(1)).squeeze(-1)
