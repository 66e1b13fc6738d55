"""Listen, Attend and Spell: the speller (after Chan et al. 2016, with Luong's output layer)."""
import torch
from torch import nn

MAX_FRAMES = 40


class Speller(nn.Module):
    """One decoder step.

    frames  (B, T, D)   listener output, T <= 40
    n       (B,) int64  real frames, 1 .. T; the others get weight zero
    char    (B,) int64  previous character
    state   (B, D)      GRU state
    returns logits (B, V), weights (B, T), new state (B, D)

    Content-based attention: each frame is compared with the new state, so that the
    same frames in another order give the same weights in that order:
        e_t = v . tanh(energy([s ; frames_t])),  a = softmax of e over the real frames
    context c = sum_t a_t frames_t, attentional vector h~ = tanh(W_c [c ; s]), logits from h~.
    """

    def __init__(self, V, D):
        super().__init__()
        self.emb = nn.Embedding(V, D)
        self.gru = nn.GRUCell(D, D)
        self.energy = nn.Linear(D, D)
        self.v = nn.Linear(D, MAX_FRAMES)
        self.wc = nn.Linear(2 * D, D)
        self.out = nn.Linear(D, V)

    def attend(self, s, frames, n):
        T = frames.size(1)
        e = self.v(torch.tanh(self.energy(s)))[:, :T]
        hidden = torch.arange(T, device=frames.device)[None] >= n[:, None]
        return torch.softmax(e.masked_fill(hidden, float("-inf")), dim=-1)

    def forward(self, frames, n, char, state):
        s = self.gru(self.emb(char), state)
        a = self.attend(s, frames, n)
        c = torch.bmm(a.unsqueeze(1), frames).squeeze(1)
        h = self.wc(torch.cat([c, s], dim=-1))
        return self.out(h), a, s
