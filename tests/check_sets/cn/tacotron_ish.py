"""Speech decoder with location-sensitive attention (Chorowski 2015, Tacotron 2).

    e_t,j = v . tanh(W s_t + V h_j + U f_t,j + b),   f_t = conv(sum of earlier alignments)
    a_t   = softmax_j(e_t) over the real phonemes

Teacher forced: frame t is predicted from frame t-1 (zeros for t = 0).
"""
import torch
from torch import nn


class LocationSensitiveAttention(nn.Module):
    def __init__(self, query_dim, memory_dim, attn_dim=24, filters=8, kernel=7):
        super().__init__()
        assert kernel % 2 == 1
        self.W = nn.Linear(query_dim, attn_dim, bias=False)
        self.V = nn.Linear(memory_dim, attn_dim, bias=False)
        self.U = nn.Linear(filters, attn_dim, bias=True)
        self.conv = nn.Conv1d(1, filters, kernel, padding=kernel // 2, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, query, memory, processed, cumulative, pad):
        """query [B, Q]; memory [B, N, M]; processed = V(memory); cumulative [B, N];
        pad bool [B, N], True on padding."""
        f = self.conv(cumulative.unsqueeze(1)).transpose(1, 2)          # [B, N, filters]
        e = self.v(torch.tanh(self.W(query).unsqueeze(1) + processed + self.U(f)))
        e = e.squeeze(-1).masked_fill(pad, float("-inf"))
        a = torch.softmax(e, dim=-1)
        return torch.einsum("bn,bnm->bm", a, memory), a


class FrameDecoder(nn.Module):
    def __init__(self, mel=10, memory_dim=20, hidden=32, prenet=16):
        super().__init__()
        self.mel, self.hidden, self.memory_dim = mel, hidden, memory_dim
        self.prenet = nn.Sequential(nn.Linear(mel, prenet), nn.ReLU())
        self.rnn = nn.LSTMCell(prenet + memory_dim, hidden)
        self.attn = LocationSensitiveAttention(hidden, memory_dim)
        self.out = nn.Linear(hidden + memory_dim, mel)

    def forward(self, memory, lengths, target):
        """memory  [B, N, memory_dim] encoder outputs
        lengths [B] phonemes per utterance, >= 1
        target  [B, T, mel] true frames
        returns frames [B, T, mel], alignments [B, T, N]"""
        B, N, _ = memory.shape
        pad = torch.arange(N, device=memory.device)[None] >= lengths[:, None]
        processed = self.attn.V(memory)
        h = memory.new_zeros(B, self.hidden)
        c = memory.new_zeros(B, self.hidden)
        ctx = memory.new_zeros(B, self.memory_dim)
        cumulative = memory.new_zeros(B, N)
        previous = memory.new_zeros(B, self.mel)
        frames, aligns = [], []
        for t in range(target.shape[1]):
            h, c = self.rnn(torch.cat([self.prenet(previous), ctx], dim=-1), (h, c))
            ctx, a = self.attn(h, memory, processed, cumulative, pad)
            cumulative = cumulative + a
            frames.append(self.out(torch.cat([h, ctx], dim=-1)))
            aligns.append(a)
            previous = target[:, t]
        return torch.stack(frames, 1), torch.stack(aligns, 1)
