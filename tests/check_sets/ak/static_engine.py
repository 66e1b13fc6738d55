"""Small inference engine: one preallocated key/value buffer, prefill once, then token by token."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelArgs:
    dim = 64
    n_layers = 2
    n_heads = 4
    n_kv_heads = 2
    max_seq_len = 128
    max_batch = 4
    vocab_size = 256
    rope_base = 10000.0


def precompute_freqs(head_dim, max_len, base):
    inv = 1.0 / (base ** (torch.arange(0, head_dim, 2).float() / head_dim))
    ang = torch.outer(torch.arange(max_len).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)            # [max_len, head_dim / 2]


def apply_rotary(x, freqs):
    """x [B, T, H, d], neighbouring numbers form a complex one."""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    z = z * freqs[None, :, None, :]
    return torch.view_as_real(z).flatten(3).type_as(x)


class StaticKV(nn.Module):
    def __init__(self, a):
        super().__init__()
        shape = (a.max_batch, a.n_kv_heads, a.max_seq_len, a.dim // a.n_heads)
        self.register_buffer("k", torch.zeros(shape), persistent=False)
        self.register_buffer("v", torch.zeros(shape), persistent=False)

    def write(self, start, k, v):
        b, _, t, _ = k.shape
        self.k[:b, :, start:start + t] = k
        self.v[:b, :, start:start + t] = v
        return self.k[:b, :, :start + t], self.v[:b, :, :start + t]


class EngineAttention(nn.Module):
    """`start_pos` is the number of tokens already in the buffer; keys are stored rotated."""

    def __init__(self, a):
        super().__init__()
        self.n_heads, self.n_kv = a.n_heads, a.n_kv_heads
        self.d = a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, a.n_heads * self.d, bias=False)
        self.wk = nn.Linear(a.dim, a.n_kv_heads * self.d, bias=False)
        self.wv = nn.Linear(a.dim, a.n_kv_heads * self.d, bias=False)
        self.wo = nn.Linear(a.n_heads * self.d, a.dim, bias=False)
        self.cache = StaticKV(a)

    def forward(self, x, start_pos, freqs, mask=None):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.n_heads, self.d)
        k = self.wk(x).view(B, T, self.n_kv, self.d)
        v = self.wv(x).view(B, T, self.n_kv, self.d)

        rot = freqs[:T]
        q, k = apply_rotary(q, rot), apply_rotary(k, rot)

        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        k, v = self.cache.write(start_pos, k, v)
        rep = self.n_heads // self.n_kv
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(B, T, -1))


class EngineBlock(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn = EngineAttention(a)
        self.n1, self.n2 = nn.LayerNorm(a.dim), nn.LayerNorm(a.dim)
        self.w1 = nn.Linear(a.dim, 4 * a.dim)
        self.w2 = nn.Linear(4 * a.dim, a.dim)

    def forward(self, x, start_pos, freqs, mask):
        x = x + self.attn(self.n1(x), start_pos, freqs, mask)
        return x + self.w2(F.silu(self.w1(self.n2(x))))


class Engine(nn.Module):
    def __init__(self, a=ModelArgs):
        super().__init__()
        self.a = a
        self.tok = nn.Embedding(a.vocab_size, a.dim)
        self.blocks = nn.ModuleList(EngineBlock(a) for _ in range(a.n_layers))
        self.norm = nn.LayerNorm(a.dim)
        self.register_buffer("freqs", precompute_freqs(a.dim // a.n_heads, a.max_seq_len, a.rope_base),
                             persistent=False)

    @torch.inference_mode()
    def step(self, ids, start_pos):
        T = ids.shape[1]
        i = torch.arange(start_pos, start_pos + T, device=ids.device)
        mask = torch.arange(start_pos + T, device=ids.device)[None, :] <= i[:, None]
        x = self.tok(ids)
        for b in self.blocks:
            x = b(x, start_pos, self.freqs, mask)
        return self.norm(x[:, -1:]) @ self.tok.weight.T

    def generate(self, prompt, n_new):
        out, feed, pos = [prompt], prompt, 0
        for _ in range(n_new):
            logits = self.step(feed, pos)
            pos += feed.shape[1]
            feed = logits[:, -1].argmax(-1, keepdim=True)
            out.append(feed)
        return torch.cat(out, 1)
