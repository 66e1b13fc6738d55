"""SASRec-lite: next-item recommendation from click sequences (left padded with item 0)."""
import argparse
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD = 0


def parse_args(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--items", type=int, default=1000)
    p.add_argument("--maxlen", type=int, default=20)
    p.add_argument("--hidden", type=int, default=32)
    p.add_argument("--heads", type=int, default=2)
    p.add_argument("--dropout", type=float, default=0.2)
    return p.parse_args(argv)


class ClickAttention(nn.Module):
    """h [B,L,C]; blocked [B,1,L,L] bool, True = this pair must NOT interact.

    A pad position has nothing to look at but pads; its own diagonal stays open
    so that the row is defined (its output is zeroed by the caller).
    """

    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.heads, self.p = heads, dropout
        self.Q = nn.Linear(hidden, hidden)
        self.K = nn.Linear(hidden, hidden)
        self.V = nn.Linear(hidden, hidden)

    def forward(self, h, blocked):
        B, L, C = h.shape
        f = lambda lin: lin(h).view(B, L, self.heads, C // self.heads).transpose(1, 2)
        out = F.scaled_dot_product_attention(
            f(self.Q), f(self.K), f(self.V),
            attn_mask=~blocked,
            dropout_p=self.p if self.training else 0.0,
        )
        return out.transpose(1, 2).contiguous().view(B, L, C)


def blocked_pairs(seq):
    L = seq.size(1)
    future = torch.ones(L, L, dtype=torch.bool, device=seq.device).triu(diagonal=1)
    eye = torch.eye(L, dtype=torch.bool, device=seq.device)
    pad = (seq == PAD)[:, None, None, :]
    return (future | pad) & ~eye


class SASRecLite(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.item = nn.Embedding(args.items + 1, args.hidden, padding_idx=PAD)
        self.pos = nn.Embedding(args.maxlen, args.hidden)
        self.att = ClickAttention(args.hidden, args.heads, args.dropout)
        self.n1, self.n2 = nn.LayerNorm(args.hidden), nn.LayerNorm(args.hidden)
        self.ff = nn.Sequential(nn.Linear(args.hidden, args.hidden), nn.ReLU(), nn.Linear(args.hidden, args.hidden))

    def forward(self, seq):
        keep = (seq != PAD).unsqueeze(-1)
        h = (self.item(seq) + self.pos.weight[: seq.size(1)]) * keep
        h = h + self.att(self.n1(h), blocked_pairs(seq))
        h = h + self.ff(self.n2(h))
        return h * keep

    def score(self, seq):
        return self(seq)[:, -1] @ self.item.weight.T
