"""Location sensitive attention of Tacotron 2 (Shen et al. 2018) for a museum audio guide.

start(memory, lengths)   memory (B, T, E) encoder outputs, lengths (B,) real characters (>= 1)
step(query)              query (B, Q) = attention RNN output; -> context (B, E), weights (B, T)

The energies are those of the paper's equation, with f from a convolution over the previous
and the cumulated weights (two channels):

    e_j = v^T tanh(W query + V memory_j + U f_j)
    weights = softmax_j(e) over the real characters

State between the steps: the previous weights and their running sum, both zero at the start.
"""
import torch
from torch import nn


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, attn_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, attn_dim, bias=False)

    def forward(self, w):
        return self.dense(self.conv(w).transpose(1, 2))


class TacotronAttention(nn.Module):
    def __init__(self, query_dim=24, memory_dim=20, attn_dim=16, n_filters=4, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(query_dim, attn_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, attn_dim, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, attn_dim)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def start(self, memory, lengths):
        B, T, _ = memory.shape
        self.memory = memory
        self.processed_memory = self.memory_layer(memory)
        self.is_pad = torch.arange(T, device=memory.device)[None, :] >= lengths[:, None]
        self.prev = memory.new_zeros(B, T)
        self.cum = memory.new_zeros(B, T)

    def energies(self, query):
        loc = self.location_layer(torch.stack([self.prev, self.cum], dim=1))
        q = self.query_layer(query).unsqueeze(1)
        hidden = torch.tanh(q + loc)
        return self.v(hidden).squeeze(-1)

    def step(self, query):
        e = self.energies(query).masked_fill(self.is_pad, -float("inf"))
        self.prev = e.softmax(dim=1)
        self.cum = self.cum + self.prev
        context = torch.einsum("bt,bte->be", self.prev, self.memory)
        return context, self.prev
