import torch
from torch import nn


class Speller(nn.Module):
    """Character decoder of our Yoruba speech recogniser (additive attention after Bahdanau 2015).

    frames [B, T, E] from the listener, frame_len [B] (at least 1), chars [B, U] teacher-forced input.
    Returns logits [B, U, n_chars] and alignment [B, U, T].
    """

    def __init__(self, n_chars, E, D, A):
        super().__init__()
        self.emb = nn.Embedding(n_chars, D)
        self.cell = nn.GRUCell(D + E, D)
        self.W = nn.Linear(D, A)
        self.U = nn.Linear(E, A, bias=False)
        self.v = nn.Linear(A, 1, bias=False)
        self.out = nn.Linear(D + E, n_chars)

    def align(self, state, keys, pad):
        hidden = self.W(state).unsqueeze(1) + keys          # [B, T, A]
        energy = self.v(hidden).squeeze(-1)                 # [B, T]
        return energy.masked_fill(pad, float("-inf")).softmax(dim=-1)

    def forward(self, frames, frame_len, chars):
        B, T, E = frames.shape
        pad = torch.arange(T, device=frames.device)[None] >= frame_len[:, None]
        keys = self.U(frames)
        state = frames.new_zeros(B, self.cell.hidden_size)
        context = frames.new_zeros(B, E)
        logits, align = [], []
        for u in range(chars.shape[1]):
            state = self.cell(torch.cat([self.emb(chars[:, u]), context], -1), state)
            a = self.align(state, keys, pad)
            context = (a.unsqueeze(-1) * frames).sum(1)
            logits.append(self.out(torch.cat([state, context], -1)))
            align.append(a)
        return torch.stack(logits, 1), torch.stack(align, 1)
