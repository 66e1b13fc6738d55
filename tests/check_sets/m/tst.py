import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttentionTST(nn.Module):
    """d_model: input dimension; q, v: dimension of queries/keys and of values for each head; h: number of heads."""

    def __init__(self, d_model: int, q: int, v: int, h: int):
        super().__init__()
        self._h = h
        self._W_q = nn.Linear(d_model, q * h)
        self._W_k = nn.Linear(d_model, q * h)
        self._W_v = nn.Linear(d_model, v * h)
        self._W_o = nn.Linear(h * v, d_model)

    def forward(self, query, key, value):
        K = query.shape[1]
        queries = torch.cat(self._W_q(query).chunk(self._h, dim=-1), dim=0)
        keys = torch.cat(self._W_k(key).chunk(self._h, dim=-1), dim=0)
        values = torch.cat(self._W_v(value).chunk(self._h, dim=-1), dim=0)
        scores = torch.bmm(queries, keys.transpose(1, 2)) / np.sqrt(K)
        scores = F.softmax(scores, dim=-1)
        attention = torch.bmm(scores, values)
        heads = torch.cat(attention.chunk(self._h, dim=0), dim=-1)
        return self._W_o(heads)
