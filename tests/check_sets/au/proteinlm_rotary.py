"""Small protein language model (ESM-like encoder, rotary positions, masked-residue loss)."""
import torch
from torch import nn
import torch.nn.functional as F

ALPHABET = ["<cls>", "<pad>", "<eos>", "<mask>"] + list("LAGVSERTIDPKQNFYMHWCXBUZO")
PAD = ALPHABET.index("<pad>")
LOOKUP = {a: i for i, a in enumerate(ALPHABET)}


def encode(seqs):
    rows = [[LOOKUP["<cls>"]] + [LOOKUP.get(a, LOOKUP["X"]) for a in s] + [LOOKUP["<eos>"]] for s in seqs]
    n = max(map(len, rows))
    return torch.tensor([r + [PAD] * (n - len(r)) for r in rows])


class RotaryTable(nn.Module):
    """cos/sin for the "rotate half" arrangement: channel i is paired with i + dim/2."""

    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, n, device):
        ang = torch.outer(torch.arange(n, device=device, dtype=self.inv_freq.dtype), self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        return ang.cos(), ang.sin()


def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class ResidueAttention(nn.Module):
    def __init__(self, width, heads, attn_drop=0.1):
        super().__init__()
        self.heads = heads
        self.dh = width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)
        self.attn_drop = attn_drop

    def forward(self, x, table, is_pad):
        """is_pad: [batch, residues], True where the token is padding."""
        bsz, n, width = x.shape

        def heads_first(t):
            return t.view(bsz, n, self.heads, self.dh).transpose(1, 2)

        cos, sin = table
        # scale the query before rotating it, as the rotation is linear
        q = turn(heads_first(self.q(x) * self.dh ** -0.5), cos, sin)
        k = turn(heads_first(self.k(x)), cos, sin)
        v = heads_first(self.v(x))
        logits = torch.einsum("bhid,bhjd->bhij", q, k)
        logits = logits.masked_fill(is_pad[:, None, None, :], torch.finfo(logits.dtype).min)
        probs = F.softmax(logits, dim=-1, dtype=torch.float32 if logits.dtype == torch.float16 else None)
        maps = probs
        probs = F.dropout(probs, self.attn_drop, self.training).to(v.dtype)
        out = torch.einsum("bhij,bhjd->bihd", probs, v).reshape(bsz, n, width)
        return self.o(out), maps


class ProteinLM(nn.Module):
    def __init__(self, width=64, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), width, padding_idx=PAD)
        self.rot = RotaryTable(width // heads)
        self.attn = nn.ModuleList(ResidueAttention(width, heads) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth))
        self.last = nn.LayerNorm(width)

    def forward(self, tokens):
        is_pad = tokens.eq(PAD)
        x = self.embed(tokens)
        table = self.rot(tokens.shape[1], tokens.device)
        contacts = []
        for a, n1, n2, f in zip(self.attn, self.n1, self.n2, self.ff):
            y, m = a(n1(x), table, is_pad)
            contacts.append(m)
            x = x + y
            x = x + f(n2(x))
        return F.linear(self.last(x), self.embed.weight), torch.stack(contacts, 1)
