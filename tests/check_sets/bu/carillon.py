"""carillon - automatic variations for a tower with 23 bells.

A bell may stay *silent*: every head owns a sink logit which takes part in the
normalisation but carries no value (same trick as in gpt-oss).  So the weights
of a row sum to 1 minus the silent share.  Causal; with a prefix (`before`) the
last query is aligned with the last key.
"""
import torch
import torch.nn as nn

N_BELLS = 23
SEMITONES = [0, 2, 4, 5, 7, 9, 11]


def bell_name(i: int) -> str:
    octave, step = divmod(i, 7)
    return "CDEFGAB"[step] + str(octave + 3)


class BellAttention(nn.Module):
    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.n = n_heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.silence = nn.Parameter(torch.zeros(n_heads))

    def _split(self, x):
        b, t, c = x.shape
        return x.reshape(b, t, self.n, c // self.n).transpose(1, 2)

    def forward(self, x, before=None):
        """x (b, t, width); before: (b, p, width) earlier strokes, or None."""
        b, t, c = x.shape
        whole = x if before is None else torch.cat([before, x], 1)
        q, k, v = map(self._split, self.qkv(whole).split(c, dim=2))
        q = q[:, :, -t:]
        logits = torch.matmul(q, k.transpose(2, 3)) / (c // self.n) ** 0.5
        past = whole.shape[1] - t
        rows = torch.arange(t, device=x.device)[:, None] + past
        cols = torch.arange(whole.shape[1], device=x.device)[None, :]
        logits = logits.masked_fill(cols > rows, float("-inf"))
        sink = self.silence.view(1, self.n, 1, 1).expand(b, -1, t, 1)
        p = torch.softmax(torch.cat([logits, sink], dim=-1), dim=-1)
        p = p[..., :-1]
        y = torch.matmul(p, v).transpose(1, 2).contiguous().view(b, t, c)
        return self.proj(y)


class Carillonneur(nn.Module):
    def __init__(self, width: int = 32, n_heads: int = 4, layers: int = 2):
        super().__init__()
        self.bells = nn.Embedding(N_BELLS + 1, width)  # last one: rest
        self.blocks = nn.ModuleList([BellAttention(width, n_heads) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(width) for _ in range(layers)])

    def forward(self, strokes):
        h = self.bells(strokes)
        for norm, block in zip(self.norm, self.blocks):
            h = h + block(norm(h))
        return h @ self.bells.weight.T


if __name__ == "__main__":
    s = torch.randint(0, N_BELLS, (1, 8))
    print([bell_name(int(i)) for i in s[0]], Carillonneur()(s).shape)
