"""Small protein language model (masked residues), encoder only.

Batches mix proteins of different lengths.  collate() makes, once per batch, the additive
attention mask used everywhere: 0.0 at residues, -inf at padding, shape (B, 1, 1, L).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

AA = "-ACDEFGHIKLMNPQRSTVWYX"      # 0 is padding
MASK = AA.index("X")


def collate(seqs):
    L = max(map(len, seqs))
    ids = torch.zeros(len(seqs), L, dtype=torch.long)
    for i, s in enumerate(seqs):
        ids[i, :len(s)] = torch.tensor([AA.index(c) for c in s])
    additive = torch.zeros(ids.shape).masked_fill(ids == 0, float("-inf"))
    return ids, additive[:, None, None, :]


class ResidueAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.Wqkv = nn.Linear(dim, 3 * dim)
        self.Wout = nn.Linear(dim, dim)

    def forward(self, x, attn_mask):
        """x (B, L, dim), attn_mask (B, 1, 1, L) from collate()"""
        B, L, D = x.shape
        q, k, v = self.Wqkv(x).view(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask.bool().expand(B, 1, L, L))
        return self.Wout(y.permute(0, 2, 1, 3).reshape(B, L, D))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.att, self.ln1, self.ln2 = ResidueAttention(dim, heads), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 9, padding=4)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, m):
        local = F.gelu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        x = self.ln1(x + local + self.att(x, m))
        return self.ln2(x + self.ff(x))


class ProteinLM(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(len(AA), dim, padding_idx=0)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.out = nn.Linear(dim, len(AA))

    def forward(self, ids, m):
        x = self.emb(ids)
        for l in self.layers:
            x = l(x, m)
        return self.out(x)


def mlm_loss(model, ids, m, p=0.15):
    hit = (torch.rand(ids.shape) < p) & (ids != 0)
    logits = model(ids.masked_fill(hit, MASK), m)
    return F.cross_entropy(logits[hit], ids[hit])


if __name__ == "__main__":
    ids, m = collate(["MKTAYIAKQR", "GSHM", "MADEEKLPPG"])
    print(ProteinLM()(ids, m).shape)
