"""Greedy route construction for the capacitated VRP (attention model decoder).

emb     (B, N+1, D)  node embeddings from the encoder, node 0 is the depot
demand  (B, N+1)     demand in units of the truck capacity, demand[:, 0] = 0, each <= 1

One step, with context c = W [mean of nodes ; current node ; free capacity]:
  glimpse:  multi-head attention of c over the feasible nodes, 1/sqrt(D/H)
  logits:   10 * tanh( glimpse . k_i / sqrt(D) ), infeasible nodes get -inf
Feasible: customers not yet served whose demand fits in the free capacity, and
the depot unless the truck stands there while customers are still waiting.
rollout gives the visited nodes (B, steps) and the summed log-probability (B,).
"""
import torch
import torch.nn as nn


class RouteDecoder(nn.Module):
    def __init__(self, d=32, heads=4, clip=10.0):
        super().__init__()
        self.d, self.heads, self.clip = d, heads, clip
        self.node = nn.Linear(d, 3 * d, bias=False)
        self.fixed = nn.Linear(d, d, bias=False)
        self.ctx = nn.Linear(d + 1, d, bias=False)
        self.mix = nn.Linear(d, d, bias=False)

    def precompute(self, emb):
        gk, gv, lk = self.node(emb).chunk(3, dim=-1)
        hd = self.d // self.heads
        gk = gk.unflatten(-1, (self.heads, hd)).permute(0, 2, 1, 3)
        gv = gv.unflatten(-1, (self.heads, hd)).permute(0, 2, 1, 3)
        return self.fixed(emb.mean(1)), gk, gv, lk

    def infeasible(self, served, demand, cap, at):
        no = served | (demand > cap[:, None] + 1e-6)
        waiting = (~served[:, 1:]).any(1)
        no = no.clone()
        no[:, 0] = (at == 0) & waiting
        return no

    def log_p(self, pre, emb, at, cap, no):
        fixed, gk, gv, lk = pre
        b = torch.arange(emb.size(0), device=emb.device)
        c = fixed + self.ctx(torch.cat([emb[b, at], cap[:, None]], -1))
        q = c.view(-1, self.heads, 1, self.d // self.heads)
        s = (q @ gk.transpose(-1, -2)) * (self.d // self.heads) ** -0.5
        w = s.masked_fill(no[:, None, None], -torch.inf).softmax(-1)
        g = self.mix((w @ gv).reshape(-1, self.d))
        u = self.clip * torch.tanh((lk @ g[:, :, None]).squeeze(-1) / self.d ** 0.5)
        return u.masked_fill(no, -torch.inf).log_softmax(-1)

    def rollout(self, emb, demand, max_steps=100):
        pre = self.precompute(emb)
        B = emb.size(0)
        at = torch.zeros(B, dtype=torch.long, device=emb.device)
        cap = torch.ones(B, device=emb.device)
        served = torch.zeros_like(demand, dtype=torch.bool)
        tour, total = [], 0.0
        for _ in range(max_steps):
            lp = self.log_p(pre, emb, at, cap, self.infeasible(served, demand, cap, at))
            best, at = lp.max(-1)
            total = total + best
            cap = torch.where(at == 0, torch.ones_like(cap), cap - demand.gather(1, at[:, None])[:, 0])
            served = served.scatter(1, at[:, None], True)
            tour.append(at)
            if served[:, 1:].all() and (at == 0).all():
                break
        return torch.stack(tour, 1), total
