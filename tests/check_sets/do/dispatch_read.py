"""Read-out of recorded emergency calls: location-sensitive attention with memory.

enc (B, T, E) acoustic states; n (B,) number of real frames (>= 1).

    f_t     = conv1d( sum of the weights of ALL previous steps )      (zeros at step 0)
    e_t,j   = v . tanh( W s_t + V enc_j + U f_t,j + b )
    a_t     = softmax over the real frames of e_t
    c_t     = sum_j a_t,j enc_j

Because of the sum the decoder knows which part of the call has been transcribed
already.  run(states, enc, n): states (B, S, D) -> contexts (B, S, E), weights (B, S, T).
"""
import torch
from torch import nn


class CallReader(nn.Module):
    def __init__(self, enc_dim, dec_dim, att=16, filters=4, width=5):
        super().__init__()
        self.W = nn.Linear(dec_dim, att, bias=False)
        self.V = nn.Linear(enc_dim, att)
        self.U = nn.Linear(filters, att, bias=False)
        self.conv = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.v = nn.Linear(att, 1, bias=False)

    def start(self, enc, n):
        frames = torch.arange(enc.size(1), device=enc.device)
        return {
            "memory": self.V(enc),
            "pad": frames[None, :] >= n[:, None],
            "heard": enc.new_zeros(enc.size(0), enc.size(1)),
        }

    def step(self, s, enc, st):
        f = self.conv(st["heard"].unsqueeze(1)).transpose(1, 2)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + st["memory"] + self.U(f))).squeeze(2)
        a = e.masked_fill(st["pad"], float("-inf")).softmax(dim=1)
        st["heard"] = a
        return torch.bmm(a.unsqueeze(1), enc).squeeze(1), a

    def run(self, states, enc, n):
        st = self.start(enc, n)
        ctx, att = [], []
        for t in range(states.size(1)):
            c, a = self.step(states[:, t], enc, st)
            ctx.append(c)
            att.append(a)
        return torch.stack(ctx, 1), torch.stack(att, 1)
