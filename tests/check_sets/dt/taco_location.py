"""Location-sensitive attention (Chorowski et al. 2015) as in Tacotron 2.

    energy_j = w^T tanh( Q s + M h_j + L f_j ),   f = conv([alpha_{t-1}; sum of all earlier alpha])

LocationDecoder.forward(frames, memory, memory_len)
    frames (B, T, mel) previous mel frames (teacher forcing), memory (B, S, E),
    memory_len (B,) -- characters at and after memory_len are padding.
Returns mel (B, T, mel) and alignment (B, T, S). The padded characters have weight 0; the first
step sees alpha_{-1} = 0 and an empty sum.
"""
import torch
from torch import nn


class LocationLayer(nn.Module):
    def __init__(self, filters, kernel, att):
        super().__init__()
        self.conv = nn.Conv1d(2, filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.dense = nn.Linear(filters, att, bias=False)

    def forward(self, cat):
        return self.dense(self.conv(cat).transpose(1, 2))


class LocationAttention(nn.Module):
    def __init__(self, rnn, emb, att, filters=8, kernel=5):
        super().__init__()
        self.query_layer = nn.Linear(rnn, att, bias=False)
        self.memory_layer = nn.Linear(emb, att, bias=False)
        self.location_layer = LocationLayer(filters, kernel, att)
        self.v = nn.Linear(att, 1, bias=False)

    def forward(self, query, memory, processed, cat, mask):
        energies = self.v(torch.tanh(self.query_layer(query.unsqueeze(1)) + processed
                                     + self.location_layer(cat))).squeeze(-1)
        energies = energies.masked_fill(mask, -float("inf"))
        weights = torch.softmax(energies, dim=1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class LocationDecoder(nn.Module):
    def __init__(self, mel=20, emb=32, rnn=48, att=24):
        super().__init__()
        self.emb = emb
        self.rnn = nn.LSTMCell(mel + emb, rnn)
        self.att = LocationAttention(rnn, emb, att)
        self.proj = nn.Linear(rnn + emb, mel)

    def forward(self, frames, memory, memory_len):
        B, S, _ = memory.shape
        mask = torch.arange(S, device=memory.device).expand(B, S) >= memory_len[:, None]
        processed = self.att.memory_layer(memory)
        prev = cum = memory.new_zeros(B, S)
        ctx = memory.new_zeros(B, self.emb)
        state, mels, aligns = None, [], []
        for t in range(frames.size(1)):
            state = self.rnn(torch.cat((frames[:, t], ctx), -1), state)
            ctx, prev = self.att(state[0], memory, processed, torch.stack((prev, cum), 1), mask)
            cum = cum + prev
            mels.append(self.proj(torch.cat((state[0], ctx), -1)))
            aligns.append(prev)
        return torch.stack(mels, 1), torch.stack(aligns, 1)
