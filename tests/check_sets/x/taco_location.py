import torch
from torch import nn
from torch.nn import functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, attention_dim):
        super().__init__()
        self.location_conv = nn.Conv1d(2, n_filters, kernel_size=kernel, padding=(kernel - 1) // 2, bias=False)
        self.location_dense = nn.Linear(n_filters, attention_dim, bias=False)

    def forward(self, attention_weights_cat):
        return self.location_dense(self.location_conv(attention_weights_cat).transpose(1, 2))


class Attention(nn.Module):
    def __init__(self, attention_rnn_dim, embedding_dim, attention_dim, n_filters=8, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(attention_rnn_dim, attention_dim, bias=False)
        self.memory_layer = nn.Linear(embedding_dim, attention_dim, bias=False)
        self.v = nn.Linear(attention_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, attention_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, attention_weights_cat):
        processed_query = self.query_layer(query.unsqueeze(1))
        loc = self.location_layer(attention_weights_cat)
        energies = self.v(torch.tanh(processed_query + loc + processed_memory))
        return energies.squeeze(-1)

    def forward(self, hidden, memory, processed_memory, attention_weights_cat, mask):
        alignment = self.get_alignment_energies(hidden, processed_memory, attention_weights_cat)
        if mask is not None:
            alignment = alignment.masked_fill(mask, self.score_mask_value)
        attention_weights = F.softmax(alignment, dim=1)
        context = torch.bmm(attention_weights.unsqueeze(1), memory).squeeze(1)
        return context, attention_weights


class MelDecoder(nn.Module):
    """memory (B, T_in, E), mels (B, T_out, n_mel) -> predicted mels and alignments (B, T_out, T_in)"""

    def __init__(self, n_mel=10, embedding_dim=16, rnn_dim=20, attention_dim=12):
        super().__init__()
        self.n_mel, self.rnn_dim = n_mel, rnn_dim
        self.prenet = nn.Sequential(nn.Linear(n_mel, rnn_dim), nn.ReLU())
        self.rnn = nn.LSTMCell(rnn_dim + embedding_dim, rnn_dim)
        self.att = Attention(rnn_dim, embedding_dim, attention_dim)
        self.proj = nn.Linear(rnn_dim + embedding_dim, n_mel)

    def forward(self, memory, mels, memory_lengths=None):
        B, T, E = memory.shape
        mask = None
        if memory_lengths is not None:
            mask = torch.arange(T, device=memory.device)[None, :] >= memory_lengths[:, None]
        h = c = memory.new_zeros(B, self.rnn_dim)
        ctx = memory.new_zeros(B, E)
        w = memory.new_zeros(B, T)
        w_cum = memory.new_zeros(B, T)
        pm = self.att.memory_layer(memory)
        go = mels.new_zeros(B, 1, self.n_mel)
        frames = self.prenet(torch.cat([go, mels[:, :-1]], 1))
        outs, aligns = [], []
        for i in range(mels.size(1)):
            h, c = self.rnn(torch.cat([frames[:, i], ctx], -1), (h, c))
            ctx, w = self.att(h, memory, pm, torch.stack([w, w_cum], 1), mask)
            w_cum = w_cum + w
            outs.append(self.proj(torch.cat([h, ctx], -1)))
            aligns.append(w)
        return torch.stack(outs, 1), torch.stack(aligns, 1)
