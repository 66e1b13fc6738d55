"""ACT-style decoder: a chunk of joint targets from encoded observations.

DETR decoder as in "Learning Fine-Grained Bimanual Manipulation": learned query
positions are added to queries and keys of the self-attention and to the queries
of the cross-attention, memory positions to its keys, never to the values.
Padding masks follow torch (True = ignore); every sample has at least one token.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def with_pos(t, pos):
    return t if pos is None else t + pos


class DecoderLayer(nn.Module):
    def __init__(self, d_model, nhead, d_ff, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(3)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, tgt, memory, query_pos=None, memory_pos=None, memory_pad=None):
        qk = with_pos(tgt, query_pos)
        y, _ = self.self_attn(qk, qk, tgt, need_weights=False)
        tgt = self.norms[0](tgt + self.dropout(y))
        y, _ = self.cross_attn(
            with_pos(tgt, query_pos),
            with_pos(memory, memory_pos),
            memory,
            key_padding_mask=memory_pad,
            need_weights=False,
        )
        tgt = self.norms[1](tgt + self.dropout(y))
        y = self.linear2(self.dropout(F.relu(self.linear1(tgt))))
        return self.norms[2](tgt + self.dropout(y))


class ACTHead(nn.Module):
    def __init__(self, d_model=32, nhead=4, layers=2, chunk=8, action_dim=7):
        super().__init__()
        self.query_pos = nn.Parameter(torch.randn(1, chunk, d_model))
        self.layers = nn.ModuleList([DecoderLayer(d_model, nhead, 2 * d_model) for _ in range(layers)])
        self.action = nn.Linear(d_model, action_dim)
        self.is_pad = nn.Linear(d_model, 1)

    def forward(self, memory, memory_pos=None, memory_pad=None):
        """memory [B, S, D] -> actions [B, chunk, A], pad logits [B, chunk]"""
        tgt = torch.zeros_like(self.query_pos).expand(memory.size(0), -1, -1)
        for layer in self.layers:
            tgt = layer(tgt, memory, self.query_pos, memory_pos, memory_pad)
        return self.action(tgt), self.is_pad(tgt).squeeze(-1)


class TemporalEnsemble:
    """Exponentially weighted mean of overlapping chunks (oldest weighs most)."""

    def __init__(self, chunk, rate=0.01):
        self.chunk, self.rate, self.queue = chunk, rate, []

    def __call__(self, actions):
        self.queue = [a[1:] for a in self.queue if len(a) > 1] + [actions]
        w = torch.exp(-self.rate * torch.arange(len(self.queue), dtype=actions.dtype))
        now = torch.stack([a[0] for a in self.queue])
        return (w[:, None] * now).sum(0) / w.sum()


if __name__ == "__main__":
    head = ACTHead().eval()
    a, p = head(torch.randn(2, 12, 32), memory_pad=torch.arange(12)[None] >= torch.tensor([[12], [8]]))
    print(a.shape, p.shape)
