"""Perceiver-style summary of a limit-order-book event stream.

A few learned latents read a (long, ragged) list of events by cross attention,
then talk among each other.  Built on nn.MultiheadAttention.
"""
import torch
from torch import nn


class OrderBookPerceiver(nn.Module):
    """
    Args
        event_dim: features per event
        dim:       width of the latents
        n_latents: how many there are
        depth:     rounds of (cross, self); weights are not shared

    forward(events, lengths)
        events:  [B, N, event_dim], padded at the end
        lengths: [B] int, number of real events (at least one, else ValueError)
    returns latents [B, n_latents, dim]
    """

    def __init__(self, event_dim=12, dim=32, n_latents=6, heads=4, depth=2, dropout=0.0):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.02)
        self.embed = nn.Linear(event_dim, dim)
        self.rounds = nn.ModuleList()
        for _ in range(depth):
            self.rounds.append(nn.ModuleDict({
                "cross": nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True),
                "self": nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True),
                "n_lat": nn.LayerNorm(dim),
                "n_ev": nn.LayerNorm(dim),
                "n_self": nn.LayerNorm(dim),
                "n_ff": nn.LayerNorm(dim),
                "ff": nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
            }))

    def forward(self, events, lengths):
        if int(lengths.min()) < 1:
            raise ValueError("empty event list")
        n = events.shape[1]
        # nn.MultiheadAttention wants True on the places to leave out
        pad = torch.arange(n, device=events.device)[None, :] >= lengths[:, None]
        ev = self.embed(events)
        lat = self.latents.unsqueeze(0).expand(events.shape[0], -1, -1)
        for r in self.rounds:
            kv = r["n_ev"](ev)
            a, _ = r["cross"](r["n_lat"](lat), kv, kv, key_padding_mask=pad, need_weights=False)
            lat = lat + a
            z = r["n_self"](lat)
            a, _ = r["self"](z, z, z, need_weights=False)
            lat = lat + a
            lat = lat + r["ff"](r["n_ff"](lat))
        return lat
