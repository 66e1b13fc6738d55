"""Finite-element mesh: every node listens along its incoming edges.

EdgeReader(f_node, f_edge, f_out, heads): f_out is the total width, heads divides it.

forward(x, send, recv, e)
    x     (N, f_node)  nodes
    send  (E,) long    index of the node an edge leaves
    recv  (E,) long    index of the node an edge enters
    e     (E, f_edge)  geometry of the edge (length, normal, ...)
returns (N, f_out)

Along edge s -> r the receiver's query meets the sender's key plus a projection of the
edge; the logit is their dot product over sqrt(width of a head). The softmax runs over
the edges that ENTER the same receiver. The value is the sender's value plus another
projection of the edge. A node that no edge enters gets exactly zero.
"""
import torch
from torch import nn


class EdgeReader(nn.Module):
    def __init__(self, f_node, f_edge, f_out, heads):
        super().__init__()
        self.heads, self.w = heads, f_out // heads
        self.ask = nn.Linear(f_node, f_out)
        self.tag = nn.Linear(f_node, f_out)
        self.say = nn.Linear(f_node, f_out)
        self.edge_tag = nn.Linear(f_edge, f_out, bias=False)
        self.edge_say = nn.Linear(f_edge, f_out, bias=False)

    def split(self, t):
        return t.view(-1, self.heads, self.w)

    def forward(self, x, send, recv, e):
        N = x.shape[0]
        ask = self.split(self.ask(x))[recv]
        tag = self.split(self.tag(x)[send] + self.edge_tag(e))
        say = self.split(self.say(x)[send] + self.edge_say(e))
        logit = (ask * tag).sum(-1) * self.w ** -0.5                    # (E, heads)

        slot = recv[:, None].expand_as(logit)
        peak = logit.new_full((N, self.heads), float("-inf"))
        peak = peak.scatter_reduce(0, slot, logit.detach(), reduce="amax")
        u = (logit - peak[recv]).exp()
        total = u.new_zeros(N, self.heads).index_add(0, recv, u)
        share = u / total[recv]
        out = say.new_zeros(N, self.heads, self.w)
        return out.index_add(0, recv, share[..., None] * say).flatten(1)
