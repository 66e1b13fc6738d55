"""Spaghetti: nodes are meatballs, edges are noodles.  (Molecule encoder, MIT licence.)"""
import torch
from torch import nn


class Spaghetti(nn.Module):
    """Graph transformer layer on an edge list.

    ball    (N, D)      node vectors
    noodle  (2, E)      int64; noodle[0] = from, noodle[1] = to
    sauce   (E, heads)  a number added to the score of each edge and head (bond type)
    out     (N, D)

    Node i mixes the values of the nodes with a noodle to i:
        w_e = softmax, over the noodles e that end in i, of q_i . k_from(e) / sqrt(d) + sauce_e
    with d = D / heads.  Each node has at least one incoming noodle (self loops are
    added by the loader).  Residual and layer norm on the outside.
    """

    def __init__(self, D, heads):
        super().__init__()
        self.heads, self.d = heads, D // heads
        self.fork = nn.Linear(D, 3 * D)
        self.plate = nn.Linear(D, D)
        self.norm = nn.LayerNorm(D)

    def forward(self, ball, noodle, sauce):
        N, D = ball.shape
        a, b = noodle
        q, k, v = self.fork(ball).view(N, 3, self.heads, self.d).unbind(1)
        twirl = (q[b] * k[a]).sum(-1) / self.d ** -0.5
        twirl = twirl + sauce
        bite = torch.softmax(twirl, dim=0)
        meal = torch.zeros_like(v).index_add(0, b, bite.unsqueeze(-1) * v[a])
        return self.norm(ball + self.plate(meal.reshape(N, D)))
