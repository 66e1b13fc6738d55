import torch
from torch import nn
from torch.nn import functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, attention_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class LSA(nn.Module):
    score_mask_value = -float("inf")

    def __init__(self, rnn_dim=24, embedding_dim=20, attention_dim=16, n_filters=6, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(embedding_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, attention_dim)

    def forward(self, hidden, memory, prev, cumulative, lengths=None):
        """
        hidden: attention rnn last output (B, rnn_dim)
        memory: encoder outputs (B, T, embedding_dim)
        prev, cumulative: last and summed attention weights (B, T)
        lengths: number of valid encoder steps (B,)
        """
        cat = torch.stack((prev, cumulative), dim=1)
        energies = self.v(torch.tanh(
            self.query_layer(hidden.unsqueeze(1)) + self.location_layer(cat) + self.memory_layer(memory)
        )).squeeze(-1)
        if lengths is not None:
            pad = torch.arange(memory.size(1), device=memory.device)[None] >= lengths[:, None]
            energies = energies.masked_fill(pad, self.score_mask_value)
        weights = F.softmax(energies, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights
