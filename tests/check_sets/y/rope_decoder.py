import torch
import torch.nn as nn
import torch.nn.functional as F

# code-completion server: one decoder layer stack, HF-like past_key_values tuples


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=128, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        t = torch.arange(max_position_embeddings, dtype=inv_freq.dtype)
        emb = torch.cat((torch.outer(t, inv_freq),) * 2, dim=-1)
        self.register_buffer("cos_cached", emb.cos(), persistent=False)
        self.register_buffer("sin_cached", emb.sin(), persistent=False)

    def forward(self, q, k):
        seq_len = q.shape[2]
        cos, sin = self.cos_cached[:seq_len], self.sin_cached[:seq_len]
        return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class DecoderAttention(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.k_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.o_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.rotary_emb = RotaryEmbedding(self.head_dim)

    def _shape(self, t, b, n):
        return t.view(b, n, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, hidden_states, past_key_value=None, use_cache=False):
        b, n, _ = hidden_states.shape
        q = self._shape(self.q_proj(hidden_states), b, n)
        k = self._shape(self.k_proj(hidden_states), b, n)
        v = self._shape(self.v_proj(hidden_states), b, n)
        q, k = self.rotary_emb(q, k)
        if past_key_value is not None:
            k = torch.cat([past_key_value[0], k], dim=2)
            v = torch.cat([past_key_value[1], v], dim=2)
        present = (k, v) if use_cache else None
        kv_len = k.shape[2]
        weights = torch.matmul(q, k.transpose(2, 3)) * (self.head_dim ** -0.5)
        allowed = torch.ones(n, kv_len, dtype=torch.bool, device=q.device).tril(kv_len - n)
        weights = weights.masked_fill(~allowed, torch.finfo(weights.dtype).min)
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(b, n, -1)
        return self.o_proj(out), present


class DecoderLayer(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.self_attn = DecoderAttention(hidden_size, num_heads)
        self.ln_1 = nn.LayerNorm(hidden_size)
        self.ln_2 = nn.LayerNorm(hidden_size)
        self.mlp = nn.Sequential(nn.Linear(hidden_size, 4 * hidden_size), nn.GELU(approximate='tanh'),
                                 nn.Linear(4 * hidden_size, hidden_size))

    def forward(self, x, past=None, use_cache=False):
        a, present = self.self_attn(self.ln_1(x), past, use_cache)
        x = x + a
        return x + self.mlp(self.ln_2(x)), present


class CodeDecoder(nn.Module):
    def __init__(self, vocab_size=80, hidden_size=32, num_heads=4, num_layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, hidden_size)
        self.h = nn.ModuleList([DecoderLayer(hidden_size, num_heads) for _ in range(num_layers)])
        self.ln_f = nn.LayerNorm(hidden_size)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        x = self.wte(input_ids)
        presents = []
        for i, layer in enumerate(self.h):
            x, present = layer(x, None if past_key_values is None else past_key_values[i], use_cache)
            presents.append(present)
        return {"logits": self.lm_head(self.ln_f(x)), "past_key_values": tuple(presents) if use_cache else None}

    @torch.no_grad()
    def complete(self, input_ids, n=8):
        out = self(input_ids, use_cache=True)
        for _ in range(n):
            nxt = out["logits"][:, -1:].argmax(-1)
            input_ids = torch.cat([input_ids, nxt], dim=1)
            out = self(nxt, out["past_key_values"], use_cache=True)
        return input_ids
