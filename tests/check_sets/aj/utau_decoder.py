"""
Recurrent mel decoder for the singing voice bank. Attention = location sensitive
(Chorowski 2015, as in Tacotron 2): the previous and the summed alignments are filtered
and go in the energies, which makes the decoder march forward through the lyrics.
"""
import torch
from torch import nn
from torch.nn import functional as F


def get_mask_from_lengths(lengths):
    """True on the padded phonemes"""
    ids = torch.arange(0, int(lengths.max()), device=lengths.device)
    return ids[None, :] >= lengths[:, None]


class ConvNorm(nn.Module):
    def __init__(self, cin, cout, kernel_size, bias=False):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, kernel_size, padding=(kernel_size - 1) // 2, bias=bias)

    def forward(self, x):
        return self.conv(x)


class LocationLayer(nn.Module):
    def __init__(self, n_filters, kernel, att_dim):
        super().__init__()
        self.location_conv = ConvNorm(2, n_filters, kernel)
        self.location_dense = nn.Linear(n_filters, att_dim, bias=False)

    def forward(self, weights_cat):
        return self.location_dense(self.location_conv(weights_cat).transpose(1, 2))


class LocationSensitiveAttention(nn.Module):
    def __init__(self, rnn_dim, memory_dim, att_dim, n_filters=16, kernel=15):
        super().__init__()
        self.query_layer = nn.Linear(rnn_dim, att_dim, bias=False)
        self.memory_layer = nn.Linear(memory_dim, att_dim, bias=False)
        self.v = nn.Linear(att_dim, 1, bias=False)
        self.location_layer = LocationLayer(n_filters, kernel, att_dim)
        self.score_mask_value = -float("inf")

    def get_alignment_energies(self, query, processed_memory, weights_cat):
        processed_query = self.query_layer(query.unsqueeze(1))
        location = self.location_layer(weights_cat)
        energies = self.v(torch.tanh(processed_query + location + processed_memory))
        return energies.squeeze(-1)

    def forward(self, query, memory, processed_memory, weights_cat, mask):
        """
        query             [B, rnn_dim]     state of the attention rnn
        memory            [B, T, mem]      encoder outputs
        processed_memory  [B, T, att]      memory_layer(memory), computed once per song
        weights_cat       [B, 2, T]        previous and cumulative weights
        """
        alignment = self.get_alignment_energies(query, processed_memory, weights_cat)
        if mask is not None:
            alignment = alignment.masked_fill(mask, self.score_mask_value)
        weights = F.softmax(alignment, dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class SingingDecoder(nn.Module):
    def __init__(self, n_mels=40, memory_dim=64, rnn_dim=96, att_dim=48, prenet=32):
        super().__init__()
        self.n_mels, self.rnn_dim = n_mels, rnn_dim
        self.prenet = nn.Sequential(nn.Linear(n_mels + 1, prenet), nn.ReLU(), nn.Linear(prenet, prenet), nn.ReLU())
        self.attention_rnn = nn.LSTMCell(prenet + memory_dim, rnn_dim)
        self.attention = LocationSensitiveAttention(rnn_dim, memory_dim, att_dim)
        self.decoder_rnn = nn.LSTMCell(rnn_dim + memory_dim, rnn_dim)
        self.to_mel = nn.Linear(rnn_dim + memory_dim, n_mels)

    def init_states(self, memory):
        B, T, M = memory.shape
        z = memory.new_zeros
        return dict(ah=z(B, self.rnn_dim), ac=z(B, self.rnn_dim), dh=z(B, self.rnn_dim), dc=z(B, self.rnn_dim),
                    w=z(B, T), w_cum=z(B, T), ctx=z(B, M))

    def step(self, frame, f0, memory, processed, mask, st):
        x = self.prenet(torch.cat([frame, f0], -1))
        st["ah"], st["ac"] = self.attention_rnn(torch.cat([x, st["ctx"]], -1), (st["ah"], st["ac"]))
        cat = torch.stack([st["w"], st["w_cum"]], dim=1)
        st["ctx"], st["w"] = self.attention(st["ah"], memory, processed, cat, mask)
        st["w_cum"] = st["w_cum"] + st["w"]
        st["dh"], st["dc"] = self.decoder_rnn(torch.cat([st["ah"], st["ctx"]], -1), (st["dh"], st["dc"]))
        return self.to_mel(torch.cat([st["dh"], st["ctx"]], -1)), st

    def forward(self, memory, memory_lengths, mels, f0):
        """teacher forcing; mels [B, n_mels, T_out], f0 [B, T_out]"""
        mask = get_mask_from_lengths(memory_lengths)
        processed = self.attention.memory_layer(memory)
        st = self.init_states(memory)
        frames = F.pad(mels, (1, 0))[:, :, :-1].unbind(-1)
        outs, aligns = [], []
        for t, frame in enumerate(frames):
            mel, st = self.step(frame, f0[:, t:t + 1], memory, processed, mask, st)
            outs.append(mel)
            aligns.append(st["w"])
        return torch.stack(outs, -1), torch.stack(aligns, 1)
