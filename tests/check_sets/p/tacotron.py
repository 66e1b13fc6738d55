import torch
from torch import nn
from torch.nn import functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel_size, attention_dim):
        super().__init__()
        self.location_conv = nn.Conv1d(2, n_filters, kernel_size, padding=(kernel_size - 1) // 2, bias=False)
        self.location_dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, weights_cat):
        return self.location_dense(self.location_conv(weights_cat).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    """Tacotron 2: v^T tanh(W query + V memory + U location features).

    query (B, rnn), memory (B, T, emb), attention_weights_cat (B, 2, T) previous and cumulative weights, mask (B, T) bool, True = padding
    """

    def __init__(self, rnn_dim=10, embedding_dim=8, attention_dim=6, n_filters=3, kernel_size=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(embedding_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel_size, attention_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, weights_cat):
        energies = self.v(torch.tanh(self.query_layer(query.unsqueeze(1)) + self.location_layer(weights_cat) + processed_memory))
        return energies.squeeze(-1)

    def forward(self, query, memory, attention_weights_cat, mask):
        alignment = self.get_alignment_energies(query, self.memory_layer(memory), attention_weights_cat)
        alignment = alignment.masked_fill(mask, self.score_mask_value)
        attention_weights = F.softmax(alignment, dim=1)
        attention_context = torch.bmm(attention_weights.unsqueeze(1), memory).squeeze(1)
        return attention_context, attention_weights
