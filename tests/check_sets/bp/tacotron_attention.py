"""Location sensitive attention of a Tacotron-2 like synthesiser.

    energies_t,i = v . tanh( W h_{t-1} + V m_i + U f_i + b ),   f = conv(previous, cumulative)
"""
import torch
from torch import nn


class LinearNorm(torch.nn.Module):
    def __init__(self, in_dim, out_dim, bias=True, w_init_gain='linear'):
        super(LinearNorm, self).__init__()
        self.linear_layer = torch.nn.Linear(in_dim, out_dim, bias=bias)
        torch.nn.init.xavier_uniform_(self.linear_layer.weight, gain=torch.nn.init.calculate_gain(w_init_gain))

    def forward(self, x):
        return self.linear_layer(x)


class LocationLayer(nn.Module):
    def __init__(self, attention_n_filters, attention_kernel_size, attention_dim):
        super(LocationLayer, self).__init__()
        padding = (attention_kernel_size - 1) // 2
        self.location_conv = nn.Conv1d(2, attention_n_filters, attention_kernel_size, padding=padding, bias=False)
        self.location_dense = LinearNorm(attention_n_filters, attention_dim, bias=False, w_init_gain='tanh')

    def forward(self, attention_weights_cat):
        processed = self.location_conv(attention_weights_cat)
        return self.location_dense(processed.transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    """forward(...) -> context [B, memory_dim], weights [B, T]; mask True = padded text position."""

    def __init__(self, rnn_dim=32, memory_dim=24, attention_dim=16, n_filters=6, kernel_size=5):
        super().__init__()
        self.query_layer = LinearNorm(rnn_dim, attention_dim, bias=False, w_init_gain='tanh')
        self.memory_layer = LinearNorm(memory_dim, attention_dim, bias=False, w_init_gain='tanh')
        self.v = LinearNorm(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel_size, attention_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, attention_weights_cat):
        processed_query = self.query_layer(query.unsqueeze(1))
        processed_location = self.location_layer(attention_weights_cat)
        energies = self.v(torch.tanh(processed_query + processed_location + processed_memory))
        return energies.squeeze(-1)

    def forward(self, attention_hidden_state, memory, processed_memory, attention_weights_cat, mask=None):
        alignment = self.get_alignment_energies(attention_hidden_state, processed_memory, attention_weights_cat)
        if mask is not None:
            alignment = alignment.masked_fill(mask, self.score_mask_value)
        attention_weights = torch.softmax(alignment, dim=1)
        attention_context = torch.bmm(attention_weights.unsqueeze(1), memory).squeeze(1)
        return attention_context, attention_weights


class AttentionDecoder(nn.Module):
    def __init__(self, n_mels=20, rnn_dim=32, memory_dim=24):
        super().__init__()
        self.rnn = nn.LSTMCell(n_mels + memory_dim, rnn_dim)
        self.attention = LocationSensitiveAttention(rnn_dim, memory_dim)
        self.proj = nn.Linear(rnn_dim + memory_dim, n_mels)

    def forward(self, memory, frames, mask=None):
        B, T, D = memory.shape
        w, cum = memory.new_zeros(B, T), memory.new_zeros(B, T)
        ctx = memory.new_zeros(B, D)
        state = None
        pm = self.attention.memory_layer(memory)
        mels, aligns = [], []
        for t in range(frames.size(1)):
            state = self.rnn(torch.cat([frames[:, t], ctx], -1), state)
            ctx, w = self.attention(state[0], memory, pm, torch.stack([w, cum], 1), mask)
            cum = cum + w
            mels.append(self.proj(torch.cat([state[0], ctx], -1)))
            aligns.append(w)
        return torch.stack(mels, 1), torch.stack(aligns, 1)
