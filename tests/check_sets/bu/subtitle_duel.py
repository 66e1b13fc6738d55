# subtitle_duel.py
#
# A party game for language learners: two players translate the same film line,
# the model says whose subtitle is closer.  One sequence holds
#     [line | player A | player B]
# A and B must not copy from each other, both may look at the line; the line looks
# only at itself.  Lengths differ from round to round, so does the mask.
import torch
from torch import nn

LINE, PLAYER_A, PLAYER_B, PAD = 0, 1, 2, 3


def lay_out(n_line, n_a, n_b, total):
    role = [LINE] * n_line + [PLAYER_A] * n_a + [PLAYER_B] * n_b
    return role + [PAD] * (total - len(role))


def forbidden(role):
    """role (B, L) -> (B, L, L) bool, True = query row must not see key column.
    Everyone, padding too, may see itself."""
    q, k = role[:, :, None], role[:, None, :]
    may = (k == q) | ((k == LINE) & (q != PAD))
    return ~may


class DuelEncoder(nn.Module):
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.role = nn.Embedding(4, dim)
        self.att = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, words, role):
        """words (B, L, dim), role (B, L) ints"""
        h = words + self.role(role)
        m = forbidden(role).repeat(self.heads, 1, 1)      # one mask for each head
        y, _ = self.att(h, h, h, attn_mask=m, need_weights=False)
        h = self.n1(h + y)
        return self.n2(h + self.ff(h))


class DuelJudge(nn.Module):
    def __init__(self, vocab=200, dim=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.enc = DuelEncoder(dim)

    @staticmethod
    def centre(h, role, who):
        w = (role == who).float().unsqueeze(-1)
        return (h * w).sum(1) / w.sum(1).clamp(min=1)

    def forward(self, ids, role):
        """-> (B,), positive = player A wins"""
        h = self.enc(self.emb(ids), role)
        line = self.centre(h, role, LINE)
        a = torch.cosine_similarity(line, self.centre(h, role, PLAYER_A))
        b = torch.cosine_similarity(line, self.centre(h, role, PLAYER_B))
        return a - b


if __name__ == "__main__":
    role = torch.tensor([lay_out(3, 3, 2, 10), lay_out(4, 2, 4, 10)])
    print(DuelJudge()(torch.randint(0, 200, (2, 10)), role))
