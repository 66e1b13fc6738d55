"""qq: who is next in the queue?  Pointer network for job scheduling (Vinyals et al. 2015)."""
import torch
from torch import nn


class QQ(nn.Module):
    """LSTM decoder that points at one of the n waiting jobs, n times.

    jobs   (B, n, F)   features of the jobs
    force  (B, n) int64 or None: order to follow (teacher forcing); None = greedy
    returns
      probs (B, n, n)  row t is the distribution over the jobs at step t; it sums to
                       one and jobs that were taken at an earlier step have probability 0
      order (B, n)     the job taken at each step, every job exactly once if greedy

    u_j = v . tanh(W1 e_j + W2 s_t), with e the encoder outputs and s_t the decoder state.
    """

    def __init__(self, F, H=64):
        super().__init__()
        self.enc = nn.LSTM(F, H, batch_first=True)
        self.dec = nn.LSTMCell(F, H)
        self.start = nn.Parameter(torch.zeros(F))
        self.w1 = nn.Linear(H, H, bias=False)
        self.w2 = nn.Linear(H, H, bias=False)
        self.v = nn.Linear(H, 1, bias=False)

    def forward(self, jobs, force=None):
        B, n, F = jobs.shape
        e, (h, c) = self.enc(jobs)
        h, c = h[0], c[0]
        keys = self.w1(e)
        taken = torch.zeros(B, n, dtype=torch.bool, device=jobs.device)
        inp = self.start.expand(B, F)
        probs, order = [], []
        for t in range(n):
            h, c = self.dec(inp, (h, c))
            u = self.v(torch.tanh(keys + self.w2(h).unsqueeze(1))).squeeze(-1)
            u.masked_fill(taken, float("-inf"))
            p = torch.softmax(u, dim=-1)
            pick = p.argmax(-1) if force is None else force[:, t]
            probs.append(u)
            order.append(pick)
            taken = taken.scatter(1, pick.unsqueeze(1), True)
            inp = jobs[torch.arange(B, device=jobs.device), pick]
        return torch.stack(probs, 1), torch.stack(order, 1)
