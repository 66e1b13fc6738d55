"""Location sensitive attention of Tacotron 2, one decoder step at a time."""
import torch
from torch import nn
import torch.nn.functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, attention_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    """
    forward(query, memory, prev, cum, mask) -> (context, weights)

    query  (B, rnn_dim)      attention RNN output of this step
    memory (B, T, emb_dim)   encoder outputs
    prev   (B, T)            weights of the previous step
    cum    (B, T)            sum of the weights of all steps before
    mask   (B, T) bool       True on padding of the text (never a whole row), or None
    context (B, emb_dim), weights (B, T) with rows that sum to 1

    energy = v . tanh(W query + V memory + U location(prev, cum))
    """

    def __init__(self, rnn_dim=32, emb_dim=24, attention_dim=16, n_filters=8, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(emb_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location = LocationLayer(n_filters, kernel, attention_dim)
        self.score_mask_value = -float("inf")

    def forward(self, query, memory, prev, cum, mask=None):
        q = self.query_layer(query.unsqueeze(1))
        loc = self.location(torch.stack((prev, cum), dim=1))
        energies = self.v(torch.tanh(q + loc + self.memory_layer(memory))).squeeze(-1)
        if mask is not None:
            energies = energies.masked_fill(mask, self.score_mask_value)
        weights = F.softmax(energies, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights
