"""Decoder side of the announcement voice (Tacotron-like, one mel frame per step)."""
import torch
from torch import nn
import torch.nn.functional as F


class Prenet(nn.Module):
    def __init__(self, n_in, sizes=(64, 64)):
        super().__init__()
        ins = (n_in,) + tuple(sizes[:-1])
        self.fc = nn.ModuleList(nn.Linear(a, b) for a, b in zip(ins, sizes))

    def forward(self, x):
        for fc in self.fc:
            # the prenet keeps its dropout in synthesis too (Shen et al. 2018, 2.2)
            x = F.dropout(F.relu(fc(x)), 0.5, training=True)
        return x


class LocationSensitiveAttention(nn.Module):
    """e_j = v . tanh(W s + V h_j + U f_j + b), f = conv([previous, cumulative weights])"""

    def __init__(self, query_dim, memory_dim, attn_dim=128, n_filters=32, kernel=31):
        super().__init__()
        self.W = nn.Linear(query_dim, attn_dim, bias=True)
        self.V = nn.Linear(memory_dim, attn_dim, bias=False)
        self.conv = nn.Conv1d(2, n_filters, kernel, padding=(kernel - 1) // 2, bias=False)
        self.U = nn.Linear(n_filters, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)
        self._memory = None

    def start(self, memory, lengths):
        """memory [B, T, memory_dim]; lengths [B], each at least 1"""
        self._memory = memory
        self._keys = self.V(memory)
        b, t = memory.shape[:2]
        self._pad = torch.arange(t, device=memory.device)[None, :] >= lengths[:, None]
        self._prev = memory.new_zeros(b, t)
        self._cum = memory.new_zeros(b, t)

    def forward(self, query):
        loc = self.conv(torch.stack([self._prev, self._cum], dim=1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(query).unsqueeze(1) + self._keys + self.U(loc))).squeeze(-1)
        e = e.masked_fill(self._pad, float("-inf"))
        a = F.softmax(e, dim=1)
        self._prev = a
        self._cum = self._cum + a
        return torch.bmm(a.unsqueeze(1), self._memory).squeeze(1), a


class MelDecoder(nn.Module):
    def __init__(self, memory_dim=64, n_mels=20, rnn=96, attn_dim=32, max_steps=200):
        super().__init__()
        self.n_mels, self.rnn_dim, self.max_steps = n_mels, rnn, max_steps
        self.prenet = Prenet(n_mels)
        self.attn_rnn = nn.LSTMCell(64 + memory_dim, rnn)
        self.attn = LocationSensitiveAttention(rnn, memory_dim, attn_dim, 8, 15)
        self.dec_rnn = nn.LSTMCell(rnn + memory_dim, rnn)
        self.mel = nn.Linear(rnn + memory_dim, n_mels)
        self.stop = nn.Linear(rnn + memory_dim, 1)

    def _begin(self, memory, lengths):
        b = memory.size(0)
        z = memory.new_zeros
        self.attn.start(memory, lengths)
        return {"h1": z(b, self.rnn_dim), "c1": z(b, self.rnn_dim), "h2": z(b, self.rnn_dim),
                "c2": z(b, self.rnn_dim), "ctx": z(b, memory.size(2))}

    def _tick(self, frame, st):
        st["h1"], st["c1"] = self.attn_rnn(torch.cat([frame, st["ctx"]], -1), (st["h1"], st["c1"]))
        st["ctx"], a = self.attn(st["h1"])
        st["h2"], st["c2"] = self.dec_rnn(torch.cat([st["h1"], st["ctx"]], -1), (st["h2"], st["c2"]))
        out = torch.cat([st["h2"], st["ctx"]], -1)
        return self.mel(out), self.stop(out).squeeze(-1), a

    def forward(self, memory, lengths, mels):
        """Teacher forcing. mels [B, n_frames, n_mels]"""
        st = self._begin(memory, lengths)
        go = mels.new_zeros(mels.size(0), 1, self.n_mels)
        frames = self.prenet(torch.cat([go, mels[:, :-1]], dim=1))
        res = [self._tick(frames[:, i], st) for i in range(frames.size(1))]
        return tuple(torch.stack(x, dim=1) for x in zip(*res))

    @torch.no_grad()
    def synthesize(self, memory, lengths, threshold=0.5):
        st = self._begin(memory, lengths)
        frame = memory.new_zeros(memory.size(0), self.n_mels)
        mels = []
        for _ in range(self.max_steps):
            frame, stop, _ = self._tick(self.prenet(frame), st)
            mels.append(frame)
            if bool((torch.sigmoid(stop) > threshold).all()):
                break
        return torch.stack(mels, dim=1)
