import torch
from torch import nn


class LocationSensitiveAttention(nn.Module):
    """Location-sensitive attention of Tacotron 2 (Chorowski et al. 2015).

    energies = v^T tanh(W s_t + V h_j + U f_j),  f = conv1d([previous weights; cumulative weights])
    """

    def __init__(self, query_dim=20, memory_dim=16, attention_dim=12, n_filters=6, kernel_size=5):
        super().__init__()
        self.query_layer = nn.Linear(query_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, attention_dim, bias=False)
        self.location_conv = nn.Conv1d(2, n_filters, kernel_size,
                                       padding=(kernel_size - 1) // 2, bias=False)
        self.location_dense = nn.Linear(n_filters, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)

    def forward(self, query, memory, prev_weights, cum_weights, mask=None):
        """
        query: (B, query_dim), decoder RNN state
        memory: (B, T, memory_dim), encoder outputs
        prev_weights, cum_weights: (B, T)
        mask: (B, T) bool, True at padded encoder steps (never the whole row)
        returns context (B, memory_dim), weights (B, T)
        """
        loc = self.location_conv(torch.stack((prev_weights, cum_weights), dim=1))
        loc = self.location_dense(loc.transpose(1, 2))
        energies = self.v(torch.tanh(
            self.query_layer(query).unsqueeze(1) + self.memory_layer(memory) + loc)).squeeze(-1)
        if mask is not None:
            energies = energies.masked_fill(mask, float("-inf"))
        weights = torch.softmax(energies, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class MelDecoder(nn.Module):
    """Teacher-forced decoder: one mel frame per step."""

    def __init__(self, n_mels=10, memory_dim=16, rnn_dim=20):
        super().__init__()
        self.n_mels, self.rnn_dim = n_mels, rnn_dim
        self.prenet = nn.Sequential(nn.Linear(n_mels, 8), nn.ReLU())
        self.rnn = nn.LSTMCell(8 + memory_dim, rnn_dim)
        self.attention = LocationSensitiveAttention(rnn_dim, memory_dim)
        self.proj = nn.Linear(rnn_dim + memory_dim, n_mels)

    def forward(self, memory, mels, memory_lengths):
        """memory (B, T, memory_dim), mels (B, F, n_mels), memory_lengths (B,)"""
        B, T, D = memory.shape
        mask = torch.arange(T, device=memory.device)[None] >= memory_lengths[:, None]
        h = c = memory.new_zeros(B, self.rnn_dim)
        context = memory.new_zeros(B, D)
        weights = cum = memory.new_zeros(B, T)
        frames, alignments = [], []
        go = mels.new_zeros(B, 1, self.n_mels)
        for frame in torch.cat([go, mels[:, :-1]], dim=1).unbind(1):
            h, c = self.rnn(torch.cat([self.prenet(frame), context], dim=-1), (h, c))
            context, weights = self.attention(h, memory, weights, cum, mask)
            cum = cum + weights
            frames.append(self.proj(torch.cat([h, context], dim=-1)))
            alignments.append(weights)
        return torch.stack(frames, 1), torch.stack(alignments, 1)
