"""Text decoder of the document reader: image tokens first, then the text.

Activations are kept as [batch, sequence, heads, head_dim] until the matmul.
Image tokens (a prefix of ``n_img``) see each other in both directions, text is causal.
Query head h shares the key/value head h // (heads / kv_heads).
"""
import torch
from torch import nn


def prefix_visible(n_img: int, length: int, device=None) -> torch.Tensor:
    """[length, length] bool, True = visible"""
    see = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    see[:n_img, :n_img] = True
    return see


class GroupedAttention(nn.Module):
    def __init__(self, width, heads, kv_heads, qk_norm=True):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, heads * self.hd, bias=False)
        self.kv_proj = nn.Linear(width, 2 * kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(heads * self.hd, width, bias=False)
        self.q_norm = nn.LayerNorm(self.hd) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.hd) if qk_norm else nn.Identity()

    def _widen(self, t):
        """[B, S, kv_heads, hd] -> [B, S, heads, hd]"""
        b, s, n, hd = t.shape
        rep = self.heads // n
        if rep == 1:
            return t
        return t.repeat(1, rep, 1, 1).view(b, s, n * rep, hd)

    def forward(self, x, visible):
        """x [B, S, W]; visible [S, S] or [B, S, S] bool, True = visible"""
        b, s, _ = x.shape
        q = self.q_norm(self.q_proj(x).view(b, s, self.heads, self.hd))
        k, v = self.kv_proj(x).view(b, s, 2, self.kv_heads, self.hd).unbind(2)
        k, v = self._widen(self.k_norm(k)), self._widen(v)

        att = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.hd ** -0.5
        visible = visible[None, None] if visible.dim() == 2 else visible[:, None]
        att = att.masked_fill(~visible, torch.finfo(att.dtype).min)
        att = att.float().softmax(dim=-1).to(v.dtype)
        return self.o_proj(torch.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, s, -1))


class ReaderBlock(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = GroupedAttention(width, heads, kv_heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, visible):
        x = x + self.attn(self.n1(x), visible)
        return x + self.down(nn.functional.gelu(self.up(self.n2(x))))


class Projector(nn.Module):
    """Merges 2x2 neighbours of the vision tower's grid and maps them to the text width."""

    def __init__(self, vision, width):
        super().__init__()
        self.norm = nn.LayerNorm(4 * vision)
        self.fc = nn.Sequential(nn.Linear(4 * vision, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, feats):
        b, h, w, c = feats.shape
        y = feats.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).flatten(3)
        return self.fc(self.norm(y)).flatten(1, 2)


class DocReader(nn.Module):
    def __init__(self, vocab=1000, vision=48, width=96, heads=6, kv_heads=2, depth=2, max_len=512):
        super().__init__()
        self.projector = Projector(vision, width)
        self.embed = nn.Embedding(vocab, width)
        self.pos = nn.Parameter(torch.randn(max_len, width) * 0.02)
        self.blocks = nn.ModuleList(ReaderBlock(width, heads, kv_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, feats, ids):
        img = self.projector(feats)
        x = torch.cat([img, self.embed(ids)], dim=1)
        x = x + self.pos[: x.size(1)]
        see = prefix_visible(img.size(1), x.size(1), x.device)
        for block in self.blocks:
            x = block(x, see)
        return self.norm(x[:, img.size(1):]) @ self.embed.weight.T

    @torch.no_grad()
    def transcribe(self, feats, bos, eos, limit=40):
        ids = torch.full((feats.size(0), 1), bos, dtype=torch.long, device=feats.device)
        for _ in range(limit):
            nxt = self(feats, ids)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], dim=1)
            if (nxt == eos).all():
                break
        return ids
