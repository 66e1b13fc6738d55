"""Single-token decoding step for GPT-NeoX style checkpoints.

``query_key_value`` of the checkpoint is packed per head: its output features are
ordered (head, [q | k | v], head_dim).  Rotary embedding covers the whole head,
half-split, at the absolute position of the token.  The new token attends to
itself and to everything in the state:

    softmax(q . k / sqrt(head_dim)) v

The state is a dict ``{"k": [B, H, S, D], "v": [B, H, S, D]}`` or None.
"""
import torch
import torch.nn as nn


def rotary_tables(positions, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    ang = positions.to(torch.float32)[:, None] * inv[None, :]
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class NeoXAttentionStep(nn.Module):
    def __init__(self, hidden=32, heads=4):
        super().__init__()
        self.heads = heads
        self.head_dim = hidden // heads
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, x, state=None):
        """x [B, 1, hidden] -> y [B, 1, hidden], new state"""
        B, T, _ = x.shape
        packed = self.query_key_value(x).view(B, T, 3, self.heads, self.head_dim)
        q, k, v = packed.permute(2, 0, 3, 1, 4)

        pos = torch.arange(T, device=x.device)
        cos, sin = rotary_tables(pos, self.head_dim)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)

        if state is not None:
            k = torch.cat([state["k"], k], dim=2)
            v = torch.cat([state["v"], v], dim=2)

        probs = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim ** -0.5
        y = torch.matmul(probs, v).transpose(1, 2).reshape(B, T, -1)
        return self.dense(y), {"k": k, "v": v}


class StepDecoder(nn.Module):
    def __init__(self, vocab=64, hidden=32, heads=4, layers=2):
        super().__init__()
        self.embed_in = nn.Embedding(vocab, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.attention = nn.ModuleList(NeoXAttentionStep(hidden, heads) for _ in range(layers))
        self.embed_out = nn.Linear(hidden, vocab, bias=False)

    def forward(self, token, states=None):
        x = self.embed_in(token)
        new = []
        for i, (norm, att) in enumerate(zip(self.norms, self.attention)):
            y, s = att(norm(x), None if states is None else states[i])
            x = x + y
            new.append(s)
        return self.embed_out(x), new


if __name__ == "__main__":
    net, st = StepDecoder(), None
    for t in (3, 17, 5):
        logits, st = net(torch.tensor([[t]]), st)
    print(logits.shape, st[0]["k"].shape)
