import torch
from torch import nn


class LocationSensitiveAttention(nn.Module):
    """Attention of the Tacotron 2 decoder (Chorowski et al. 2015, hybrid form)."""

    def __init__(self, rnn_dim=32, enc_dim=24, attn_dim=16, filters=4, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, attn_dim, bias=False)
        self.memory_layer = nn.Linear(enc_dim, attn_dim, bias=True)
        self.location_conv = nn.Conv1d(2, filters, kernel, padding=kernel // 2, bias=False)
        self.location_dense = nn.Linear(filters, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def init_state(self, memory):
        z = memory.new_zeros(memory.shape[:2])
        return z, z.clone()

    def forward(self, h, memory, state, text_lengths):
        """
        h: (B, rnn_dim) attention RNN output for this frame
        memory: (B, T, enc_dim) encoder outputs
        state: (previous weights, cumulative weights), each (B, T)
        text_lengths: (B,) number of real characters, at least one
        returns context (B, enc_dim), weights (B, T), new state
        """
        prev, cum = state
        loc = self.location_conv(torch.stack([prev, cum], dim=1))
        loc = self.location_dense(loc.transpose(1, 2))
        e = self.v(torch.tanh(
            self.query_layer(h).unsqueeze(1) + self.memory_layer(memory) + loc
        )).squeeze(-1)
        pos = torch.arange(memory.size(1), device=memory.device)
        e = e.masked_fill(pos >= text_lengths.unsqueeze(1), float("-inf"))
        w = torch.softmax(e, dim=1)
        context = torch.bmm(w.unsqueeze(1), memory).squeeze(1)
        return context, w, (w, cum + w)
