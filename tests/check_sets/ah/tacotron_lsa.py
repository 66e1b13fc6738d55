"""Location sensitive attention (Chorowski et al. 2015) and the Tacotron-2 attention RNN."""
import torch
from torch import nn
from torch.nn import functional as F


def get_mask_from_lengths(lengths, max_len=None):
    """True where there is text."""
    max_len = int(lengths.max()) if max_len is None else max_len
    ids = torch.arange(max_len, device=lengths.device)
    return ids < lengths.unsqueeze(1)


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, att_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, att_dim, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    def __init__(self, rnn_dim=128, enc_dim=64, att_dim=32, n_filters=8, kernel=31):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, att_dim, bias=False)
        self.memory_layer = nn.Linear(enc_dim, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, att_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, att_cat):
        pq = self.query_layer(query.unsqueeze(1))
        pl = self.location_layer(att_cat)
        return self.v(torch.tanh(pq + pl + processed_memory)).squeeze(-1)

    def forward(self, state, memory, processed_memory, att_cat, mask):
        """mask: bool [B, T], True = padding"""
        e = self.get_alignment_energies(state, processed_memory, att_cat)
        if mask is not None:
            e = e.masked_fill(mask, self.score_mask_value)
        w = F.softmax(e, dim=1)
        ctx = torch.bmm(w.unsqueeze(1), memory).squeeze(1)
        return ctx, w


class Prenet(nn.Module):
    def __init__(self, n_mel, dim):
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(n_mel, dim, bias=False), nn.Linear(dim, dim, bias=False)])

    def forward(self, x):
        for lin in self.l:
            # prenet dropout stays on at synthesis time, section 2.2 of the paper
            x = F.dropout(F.relu(lin(x)), p=0.5, training=True)
        return x


class AttentionDecoder(nn.Module):
    def __init__(self, n_mel=80, enc_dim=64, prenet=32, rnn=128):
        super().__init__()
        self.n_mel, self.rnn_dim = n_mel, rnn
        self.prenet = Prenet(n_mel, prenet)
        self.rnn = nn.LSTMCell(prenet + enc_dim, rnn)
        self.attention = LocationSensitiveAttention(rnn, enc_dim)
        self.proj = nn.Linear(rnn + enc_dim, n_mel)
        self.gate = nn.Linear(rnn + enc_dim, 1)

    def forward(self, memory, lengths, mels):
        B, T, E = memory.shape
        z = lambda *s: memory.new_zeros(*s)
        h, c, ctx = z(B, self.rnn_dim), z(B, self.rnn_dim), z(B, E)
        w, w_cum = z(B, T), z(B, T)
        mask = ~get_mask_from_lengths(lengths, T)
        pm = self.attention.memory_layer(memory)
        frames = torch.cat([z(B, 1, self.n_mel), mels[:, :-1]], 1)
        outs, gates, aligns = [], [], []
        for f in self.prenet(frames).unbind(1):
            h, c = self.rnn(torch.cat([f, ctx], -1), (h, c))
            ctx, w = self.attention(h, memory, pm, torch.stack([w, w_cum], 1), mask)
            w_cum = w_cum + w
            o = torch.cat([h, ctx], -1)
            outs.append(self.proj(o))
            gates.append(self.gate(o))
            aligns.append(w)
        return torch.stack(outs, 1), torch.cat(gates, 1), torch.stack(aligns, 1)
