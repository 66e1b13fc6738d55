"""Intrusion detection on a CAN bus: packets arrive in bursts and are read against the queue.

BusReader(d, lanes)

forward(burst, queue=None)
    burst  (B, n, d)   the next n packets in order of arrival
    queue  None or (k, v) as returned before, each (B, lanes, m, d // lanes): all packets
           that came earlier
returns (B, n, d), new queue

A packet reads every packet that arrived before it and itself, never one that comes later.
Whether traffic comes in one burst or in many must not change any output.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BusReader(nn.Module):
    def __init__(self, d, lanes):
        super().__init__()
        self.lanes = lanes
        self.rx = nn.Linear(d, d)
        self.id = nn.Linear(d, d)
        self.payload = nn.Linear(d, d)
        self.tx = nn.Linear(d, d)

    def lane(self, t):
        return t.unflatten(-1, (self.lanes, -1)).transpose(1, 2)

    def forward(self, burst, queue=None):
        q, k, v = self.lane(self.rx(burst)), self.lane(self.id(burst)), self.lane(self.payload(burst))
        if queue is not None:
            k = torch.cat((queue[0], k), dim=2)
            v = torch.cat((queue[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).flatten(2)
        return self.tx(y), (k, v)
