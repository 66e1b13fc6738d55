"""Session-based recommendation with a gated graph network (SR-GNN style).

Only the model lives here; data loading is in ``loader.py`` (not needed to import).
"""
import math

import torch
import torch.nn as nn


class GatedCell(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gates_in = nn.Linear(2 * hidden, 3 * hidden)
        self.gates_h = nn.Linear(hidden, 3 * hidden)
        self.edge_in = nn.Linear(hidden, hidden)
        self.edge_out = nn.Linear(hidden, hidden)

    def forward(self, A, h):
        n = A.shape[1]
        msg_in = A[:, :, :n] @ self.edge_in(h)
        msg_out = A[:, :, n:2 * n] @ self.edge_out(h)
        gi = self.gates_in(torch.cat([msg_in, msg_out], dim=2))
        gh = self.gates_h(h)
        i_r, i_u, i_n = gi.chunk(3, 2)
        h_r, h_u, h_n = gh.chunk(3, 2)
        reset = torch.sigmoid(i_r + h_r)
        update = torch.sigmoid(i_u + h_u)
        cand = torch.tanh(i_n + reset * h_n)
        return cand + update * (h - cand)


class SoftReadout(nn.Module):
    r"""Local/global readout of a click session.

    With v_n the last click,

        alpha_i = q^T sigmoid(W_1 v_n + W_2 v_i + c)
        s_g     = sum_i alpha_i v_i
        s_h     = W_3 [v_n ; s_g]

    as in eq. (6) and (7) of the paper: the alphas are free weights, longer sessions
    may have a larger norm.
    """

    def __init__(self, hidden):
        super().__init__()
        self.w1 = nn.Linear(hidden, hidden, bias=False)
        self.w2 = nn.Linear(hidden, hidden, bias=True)   # bias plays c
        self.q = nn.Linear(hidden, 1, bias=False)
        self.w3 = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, seq, mask):
        """seq [B, T, D] states in click order, mask [B, T] with 1 = click, 0 = pad (at the end)."""
        last = mask.sum(1).long() - 1
        v_n = seq[torch.arange(seq.size(0), device=seq.device), last]
        alpha = self.q(torch.sigmoid(self.w1(v_n).unsqueeze(1) + self.w2(seq)))   # B, T, 1
        s_g = (alpha * seq * mask.unsqueeze(-1).to(seq.dtype)).sum(1)
        return self.w3(torch.cat([v_n, s_g], dim=1))


class SessionModel(nn.Module):
    def __init__(self, n_items, hidden=32, steps=1):
        super().__init__()
        self.emb = nn.Embedding(n_items, hidden, padding_idx=0)
        self.cell = GatedCell(hidden)
        self.readout = SoftReadout(hidden)
        self.steps = steps
        bound = 1.0 / math.sqrt(hidden)
        for p in self.parameters():
            nn.init.uniform_(p, -bound, bound)

    def forward(self, nodes, A, alias, mask):
        h = self.emb(nodes)
        for _ in range(self.steps):
            h = self.cell(A, h)
        seq = torch.gather(h, 1, alias.unsqueeze(-1).expand(-1, -1, h.size(-1)))
        s = self.readout(seq, mask)
        return s @ self.emb.weight[1:].t()


if __name__ == "__main__":
    torch.manual_seed(0)
    m = SessionModel(20, 16)
    nodes = torch.tensor([[3, 5, 7, 0], [2, 9, 0, 0]])
    A = torch.rand(2, 4, 8)
    alias = torch.tensor([[0, 1, 0, 2, 0], [0, 1, 0, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    print(m(nodes, A, alias, mask).shape)
