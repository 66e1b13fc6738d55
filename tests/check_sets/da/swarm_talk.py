import torch
from torch import nn


class SwarmTalk(nn.Module):
    """Robots exchange messages with those in radio range.

    state (B, N, d); reach (B, N, N) bool, reach[b, i, j] = robot i hears robot j.
    A robot always hears itself, whatever reach says.
    """

    def __init__(self, d=16, heads=4):
        super().__init__()
        self.heads = heads
        self.hear = nn.Linear(d, d)
        self.call = nn.Linear(d, d)
        self.tell = nn.Linear(d, d)
        self.act = nn.Linear(d, d)

    def _fold(self, t):
        B, N, d = t.shape
        return t.view(B, N, self.heads, -1).transpose(1, 2).reshape(B * self.heads, N, -1)

    def forward(self, state, reach):
        B, N, d = state.shape
        q, k, v = self._fold(self.hear(state)), self._fold(self.call(state)), self._fold(self.tell(state))
        deaf = ~(reach | torch.eye(N, dtype=torch.bool, device=state.device))
        deaf = deaf.repeat(self.heads, 1, 1)
        s = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.mT, beta=0, alpha=(d // self.heads) ** -0.5)
        s = s.masked_fill(deaf, float("-inf"))
        y = torch.bmm(s.softmax(-1), v)
        y = y.view(B, self.heads, N, -1).transpose(1, 2).reshape(B, N, d)
        return state + self.act(y)
