# Диалоговая модель: слой с ротационными позициями и кэшем для генерации.
import torch
import torch.nn as nn
import torch.nn.functional as F


def precompute_freqs(dim, max_len, theta=10000.0):
    inv = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    ang = torch.outer(torch.arange(max_len).float(), inv)
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    """Поворот половинами (как в GPT-NeoX / Llama HF). x: [B, H, T, D]"""
    h = x.shape[-1] // 2
    y = torch.cat([-x[..., h:], x[..., :h]], dim=-1)
    return x * cos + y * sin


class CausalRotary(nn.Module):
    """Каузальное внимание. kv: кортеж (k, v) с прошлых шагов.

    Позиции абсолютные: первый токен разговора имеет позицию 0, поэтому результат
    не зависит от того, подан текст целиком или по частям.
    """

    def __init__(self, dim, n_head, max_len=256, p=0.0):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(dim, 3 * dim, bias=False)
        self.c_proj = nn.Linear(dim, dim, bias=False)
        self.p = p
        cos, sin = precompute_freqs(dim // n_head, max_len)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, kv=None):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, -1).transpose(1, 2)
        k = k.view(B, T, self.n_head, -1).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)

        cos, sin = self.cos[:T], self.sin[:T]
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if kv is not None:
            k = torch.cat([kv[0], k], dim=2)
            v = torch.cat([kv[1], v], dim=2)

        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=keep, dropout_p=self.p if self.training else 0.0)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class DialogLM(nn.Module):
    def __init__(self, vocab=512, dim=64, n_head=4, depth=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleList([
                nn.LayerNorm(dim), CausalRotary(dim, n_head), nn.LayerNorm(dim),
                nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            ]))
        self.ln = nn.LayerNorm(dim)

    def forward(self, ids, past=None):
        x = self.wte(ids)
        present = []
        for i, (n1, att, n2, mlp) in enumerate(self.blocks):
            y, kv = att(n1(x), None if past is None else past[i])
            present.append(kv)
            x = x + y
            x = x + mlp(n2(x))
        return self.ln(x) @ self.wte.weight.t(), present

    @torch.no_grad()
    def reply(self, ids, n=20, temperature=0.8):
        logits, past = self(ids)
        out = []
        for _ in range(n):
            p = (logits[:, -1] / temperature).softmax(-1)
            nxt = torch.multinomial(p, 1)
            out.append(nxt)
            logits, past = self(nxt, past)
        return torch.cat(out, 1)
