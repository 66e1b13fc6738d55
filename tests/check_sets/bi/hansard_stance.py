"""
Stance model over parliamentary sittings.

One "sitting" is a padded sequence of speech vectors (sentence encoder output).
The model says, for every speech, how much it supports the motion.

    speeches : (N, T, width)  float
    n_spoken : (N,)           number of real speeches in each sitting

Speeches beyond ``n_spoken`` are padding and nobody may listen to them.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PARTIES = ["gov", "opp", "cross-bench", "speaker"]


def spoken_mask(n_spoken, T):
    """True where a speech is real."""
    return torch.arange(T, device=n_spoken.device)[None, :] < n_spoken[:, None]


class Chamber(nn.Module):
    """Every speech listens to all the speeches of its own sitting.

    Heads are folded into the batch in the old way: the feature axis is cut in
    ``h`` pieces and the pieces are stacked along axis 0, which gives (h*N, T, d).
    """

    def __init__(self, width, h):
        super().__init__()
        assert width % h == 0
        self.h = h
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def _fold(self, t):
        return torch.cat(torch.chunk(t, self.h, dim=2), dim=0)

    def _unfold(self, t):
        return torch.cat(torch.chunk(t, self.h, dim=0), dim=2)

    def forward(self, speeches, n_spoken):
        N, T, _ = speeches.shape
        q = self._fold(self.to_q(speeches))
        k = self._fold(self.to_k(speeches))
        v = self._fold(self.to_v(speeches))

        logits = torch.bmm(q, k.transpose(1, 2)) / (q.shape[-1] ** 0.5)

        # the folded tensors have h entries for each sitting
        heard = spoken_mask(n_spoken, T).repeat_interleave(self.h, dim=0)
        logits = logits.masked_fill(~heard[:, None, :], float("-inf"))

        p = F.softmax(logits, dim=-1)
        return self.out(self._unfold(torch.bmm(p, v)))


class StanceModel(nn.Module):
    def __init__(self, width=96, h=4, depth=2):
        super().__init__()
        self.rounds = nn.ModuleList(Chamber(width, h) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.party = nn.Embedding(len(PARTIES), width)
        self.score = nn.Linear(width, 1)

    def forward(self, speeches, party, n_spoken):
        x = speeches + self.party(party)
        for r, n in zip(self.rounds, self.norms):
            x = x + r(n(x), n_spoken)
        return torch.tanh(self.score(x)).squeeze(-1)


if __name__ == "__main__":
    m = StanceModel()
    print(m(torch.randn(3, 7, 96), torch.randint(0, 4, (3, 7)), torch.tensor([7, 4, 2])))
