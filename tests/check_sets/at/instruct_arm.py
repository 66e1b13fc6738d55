"""Language-conditioned manipulation: gripper camera tokens look at the instruction."""
import torch
import torch.nn as nn

VERBS = ("pick", "place", "push", "open", "close", "pour")


def simple_tokenize(text, vocab, length=16):
    ids = [vocab.get(w, 1) for w in text.lower().split()][:length]
    return ids + [0] * (length - len(ids))


class CrossModalAttention(nn.Module):
    """Visual tokens are the queries; the words supply keys and values:
    softmax(q k^T / sqrt(d)) v per head.  word_mask (B, L): True = a word."""

    def __init__(self, vis_dim, txt_dim, heads=4, head_dim=16):
        super().__init__()
        self.heads, self.head_dim = heads, head_dim
        inner = heads * head_dim
        self.nv, self.nt = nn.LayerNorm(vis_dim), nn.LayerNorm(txt_dim)
        self.to_q = nn.Linear(vis_dim, inner, bias=False)
        self.to_kv = nn.Linear(txt_dim, inner * 2, bias=False)
        self.out = nn.Linear(inner, vis_dim)
        self.gate = nn.Parameter(torch.tensor(0.5))

    def heads_first(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, vis, txt, word_mask):
        q = self.heads_first(self.to_q(self.nv(vis)))
        k, v = map(self.heads_first, self.to_kv(self.nt(txt)).chunk(2, dim=-1))
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * self.head_dim ** -0.5
        sim = sim.masked_fill(~word_mask[:, None, None], -torch.finfo(sim.dtype).max)
        w = sim.softmax(dim=-1)
        o = torch.einsum("bhij,bhjd->bhid", w, k)
        o = o.transpose(1, 2).flatten(2)
        return vis + torch.tanh(self.gate) * self.out(o)


class VisualTokens(nn.Module):
    def __init__(self, dim, grid=7):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 5, 4, 2), nn.ReLU(), nn.Conv2d(32, dim, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(grid))
        self.pos = nn.Parameter(torch.randn(1, grid * grid, dim) * 0.02)

    def forward(self, img):
        return self.net(img).flatten(2).transpose(1, 2) + self.pos


class InstructArm(nn.Module):
    """-> delta pose (6) and gripper probability"""

    def __init__(self, vocab=500, dim=64, txt=48, layers=2):
        super().__init__()
        self.words = nn.Embedding(vocab, txt, padding_idx=0)
        self.gru = nn.GRU(txt, txt // 2, batch_first=True, bidirectional=True)
        self.vision = VisualTokens(dim)
        self.fuse = nn.ModuleList(CrossModalAttention(dim, txt) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(layers))
        self.head = nn.Linear(dim, 7)

    def forward(self, img, ids):
        txt, _ = self.gru(self.words(ids))
        x = self.vision(img)
        for f, m in zip(self.fuse, self.mlp):
            x = f(x, txt, ids != 0)
            x = x + m(x)
        y = self.head(x.mean(1))
        return torch.tanh(y[:, :6]) * 0.05, torch.sigmoid(y[:, 6])


def bc_loss(pose, grip, target):
    return ((pose - target[:, :6]) ** 2).mean() + nn.functional.binary_cross_entropy(grip, target[:, 6])
