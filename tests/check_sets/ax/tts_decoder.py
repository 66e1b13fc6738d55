"""Tacotron decoder for the audiobook voice.

Location sensitive attention (Chorowski et al. 2015): the Bahdanau energy gets a third term from
a convolution over the previous and the cumulated alignments,

    e_{t,i} = v^T tanh(W s_t + V h_i + U f_{t,i})
"""
import torch
from torch import nn
from torch.nn import functional as F


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, att_dim):
        super().__init__()
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(n_filters, att_dim, bias=False)

    def forward(self, alignments):
        return self.dense(self.conv(alignments).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    def __init__(self, rnn_dim, memory_dim, att_dim=64, n_filters=16, kernel=15):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, att_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, att_dim, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, att_dim)
        self.v = nn.Linear(att_dim, 1, bias=False)

    def energies(self, query, processed_memory, alignments):
        """
        query             [B, rnn_dim]      decoder state of this frame
        processed_memory  [B, T_in, att]    memory_layer(encoder output), computed once
        alignments        [B, 2, T_in]      previous and cumulated weights
        """
        processed_query = self.query_layer(query.unsqueeze(1))
        location = self.location_layer(alignments)
        return self.v(processed_query + processed_memory + location).squeeze(-1)

    def forward(self, query, memory, processed_memory, alignments, mask=None):
        """mask [B, T_in] bool, True = padded character (each text has at least one character)"""
        e = self.energies(query, processed_memory, alignments)
        if mask is not None:
            e = e.masked_fill(mask, -float("inf"))
        weights = F.softmax(e, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Prenet(nn.Module):
    """dropout stays on when speaking, as in the paper (gives the variation)"""

    def __init__(self, n_in, sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in zip([n_in] + sizes[:-1], sizes))

    def forward(self, x):
        for lin in self.layers:
            x = F.dropout(F.relu(lin(x)), p=0.5, training=True)
        return x


class Decoder(nn.Module):
    def __init__(self, mels=80, memory_dim=128, rnn=128, prenet=(64, 64)):
        super().__init__()
        self.mels, self.rnn = mels, rnn
        self.prenet = Prenet(mels, list(prenet))
        self.att_rnn = nn.LSTMCell(prenet[-1] + memory_dim, rnn)
        self.attention = LocationSensitiveAttention(rnn, memory_dim)
        self.dec_rnn = nn.LSTMCell(rnn + memory_dim, rnn)
        self.mel = nn.Linear(rnn + memory_dim, mels)
        self.stop = nn.Linear(rnn + memory_dim, 1)

    def start(self, memory, mask):
        b, t, d = memory.shape
        z = memory.new_zeros
        return {"att": (z(b, self.rnn), z(b, self.rnn)), "dec": (z(b, self.rnn), z(b, self.rnn)),
                "w": z(b, t), "cum": z(b, t), "ctx": z(b, d), "memory": memory, "mask": mask,
                "proc": self.attention.memory_layer(memory)}

    def frame(self, s, prev):
        s["att"] = self.att_rnn(torch.cat([self.prenet(prev), s["ctx"]], -1), s["att"])
        ali = torch.stack([s["w"], s["cum"]], dim=1)
        s["ctx"], s["w"] = self.attention(s["att"][0], s["memory"], s["proc"], ali, s["mask"])
        s["cum"] = s["cum"] + s["w"]
        s["dec"] = self.dec_rnn(torch.cat([s["att"][0], s["ctx"]], -1), s["dec"])
        h = torch.cat([s["dec"][0], s["ctx"]], -1)
        return self.mel(h), self.stop(h).squeeze(-1), s["w"]

    def forward(self, memory, mels, mask=None):
        """teacher forcing; mels [B, T_out, mels]"""
        s = self.start(memory, mask)
        prev = torch.cat([mels.new_zeros(mels.size(0), 1, self.mels), mels[:, :-1]], dim=1)
        out = [self.frame(s, prev[:, t]) for t in range(mels.size(1))]
        return tuple(torch.stack(x, dim=1) for x in zip(*out))

    @torch.no_grad()
    def speak(self, memory, limit=400, threshold=0.5):
        s, prev, out = self.start(memory, None), memory.new_zeros(memory.size(0), self.mels), []
        while len(out) < limit:
            prev, stop, _ = self.frame(s, prev)
            out.append(prev)
            if bool((stop.sigmoid() > threshold).all()):
                break
        return torch.stack(out, dim=1)
