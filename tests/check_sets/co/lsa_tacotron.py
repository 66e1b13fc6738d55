"""Tacotron 2: location sensitive attention."""
import torch
from torch import nn
from torch.nn import functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters=8, kernel_size=5, attention_dim=16):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel_size, padding=(kernel_size - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, attention_weights_cat):
        return self.dense(self.conv(attention_weights_cat).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, attention_rnn_dim=24, embedding_dim=20, attention_dim=16,
                 location_n_filters=8, location_kernel_size=5):
        super().__init__()
        self.query_layer = nn.Linear(attention_rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(embedding_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(location_n_filters, location_kernel_size, attention_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, attention_weights_cat):
        """
        query: decoder output (batch, attention_rnn_dim)
        processed_memory: processed encoder outputs (B, T_in, attention_dim)
        attention_weights_cat: cumulative and previous att weights (B, 2, T_in)
        returns energies (batch, T_in)
        """
        processed_query = self.query_layer(query.unsqueeze(1))
        processed_location = self.location_layer(attention_weights_cat)
        energies = self.v(torch.tanh(processed_query + processed_location + processed_memory))
        return energies.squeeze(-1)

    def forward(self, attention_hidden_state, memory, attention_weights_cat, mask=None):
        """
        attention_hidden_state: attention rnn last output (B, attention_rnn_dim)
        memory: encoder outputs (B, T_in, embedding_dim)
        attention_weights_cat: previous and cumulative attention weights (B, 2, T_in)
        mask: binary mask for padded data (B, T_in), True = padding (no text is empty)
        """
        processed_memory = self.memory_layer(memory)
        alignment = self.get_alignment_energies(attention_hidden_state, processed_memory, attention_weights_cat)
        if mask is not None:
            alignment = alignment.masked_fill(mask, self.score_mask_value)
        attention_weights = F.softmax(alignment, dim=1)
        attention_context = torch.bmm(attention_weights.unsqueeze(1), memory).squeeze(1)
        return attention_context, attention_weights


def run_decoder(cell, attention, frames, memory, mask=None):
    """Teacher-forced pass over frames (B, T_out, n_mel); cell is an LSTMCell(n_mel + embedding_dim, rnn_dim)."""
    B, T_in, E = memory.shape
    h = c = memory.new_zeros(B, cell.hidden_size)
    w = w_cum = memory.new_zeros(B, T_in)
    ctx = memory.new_zeros(B, E)
    aligns = []
    for t in range(frames.size(1)):
        h, c = cell(torch.cat((frames[:, t], ctx), -1), (h, c))
        ctx, w = attention(h, memory, torch.stack((w, w_cum), dim=1), mask)
        w_cum = w_cum + w
        aligns.append(w)
    return torch.stack(aligns, 1)
