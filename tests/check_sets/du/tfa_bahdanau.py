"""Port of tensorflow_addons BahdanauAttention(normalize=True) to PyTorch.

score(s, h_j) = g * v / ||v|| . tanh(W_m h_j + W_q s + b)        (Salimans & Kingma
weight norm on v, as in the TF class).  memory_layer and query_layer have no bias;
g starts at sqrt(1 / units), b at zero, both learned.

TF puts score_mask_value = -inf at positions >= memory_sequence_length; same here.
"""
import torch
from torch import nn


class NormedBahdanau(nn.Module):
    """
    setup(memory, memory_sequence_length) once per batch, then call forward(query)
    for each decoder step.

    memory                   [batch, max_time, mem_dim]
    memory_sequence_length   [batch] int, every one >= 1
    query                    [batch, query_dim]
    returns context [batch, mem_dim], alignments [batch, max_time] (rows sum to 1)
    """

    def __init__(self, units, query_dim, mem_dim):
        super().__init__()
        self.memory_layer = nn.Linear(mem_dim, units, bias=False)
        self.query_layer = nn.Linear(query_dim, units, bias=False)
        self.attention_v = nn.Parameter(torch.empty(units).uniform_(-0.1, 0.1))
        self.attention_g = nn.Parameter(torch.tensor(units ** -0.5))
        self.attention_b = nn.Parameter(torch.zeros(units))
        self._values = self._keys = self._outside = None

    def setup(self, memory, memory_sequence_length):
        steps = torch.arange(memory.size(1), device=memory.device)
        self._outside = steps[None, :] >= memory_sequence_length[:, None]
        # _prepare_memory of TF zeroes what is past the end
        self._values = memory * (~self._outside).unsqueeze(-1).to(memory.dtype)
        self._keys = self.memory_layer(self._values)

    def _score(self, processed_query):
        normed_v = self.attention_g * self.attention_v * torch.rsqrt(
            self.attention_v.square().sum())
        hidden = torch.tanh(self._keys + processed_query.unsqueeze(1) + self.attention_b)
        return (normed_v * hidden).sum(-1)

    def forward(self, query):
        score = self._score(self.query_layer(query))
        score = score.masked_fill(self._outside, -float("inf"))
        alignments = torch.softmax(score, dim=-1)
        context = torch.bmm(alignments.unsqueeze(1), self._values).squeeze(1)
        return context, alignments
