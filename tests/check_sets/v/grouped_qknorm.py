"""Decoder block with grouped queries and normalised queries and keys."""
import torch
from torch import nn, Tensor

CONFIG = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8, "rms_norm_eps": 1e-6}


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        v = x.float().square().mean(-1, keepdim=True)
        return self.weight * (x.float() / torch.sqrt(v + self.eps)).to(x.dtype)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class GroupedAttention(nn.Module):
    def __init__(self, config: dict):
        super().__init__()
        self.nq = config["num_attention_heads"]
        self.nkv = config["num_key_value_heads"]
        self.hd = config["head_dim"]
        self.rep = self.nq // self.nkv
        h = config["hidden_size"]
        self.q_proj = nn.Linear(h, self.nq * self.hd, bias=False)
        self.k_proj = nn.Linear(h, self.nkv * self.hd, bias=False)
        self.v_proj = nn.Linear(h, self.nkv * self.hd, bias=False)
        self.o_proj = nn.Linear(self.nq * self.hd, h, bias=False)
        self.q_norm = Norm(self.hd, config["rms_norm_eps"])
        self.k_norm = Norm(self.hd, config["rms_norm_eps"])

    def forward(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        b, t, _ = hidden.shape
        q = self.q_norm(self.q_proj(hidden).view(b, t, self.nq, self.hd)).transpose(1, 2)
        k = self.k_norm(self.k_proj(hidden).view(b, t, self.nkv, self.hd)).transpose(1, 2)
        v = self.v_proj(hidden).view(b, t, self.nkv, self.hd).transpose(1, 2)

        inv = 1e6 ** -(torch.arange(0, self.hd, 2, device=hidden.device).float() / self.hd)
        ang = torch.arange(t, device=hidden.device)[:, None] * inv
        ang = torch.cat((ang, ang), dim=-1)
        q = q * ang.cos() + rotate_half(q) * ang.sin()
        k = k * ang.cos() + rotate_half(k) * ang.sin()

        k = k.repeat(1, self.rep, 1, 1)
        v = v.repeat(1, self.rep, 1, 1)
        w = torch.matmul(q, k.transpose(2, 3)) * self.hd**-0.5
        block = torch.ones(t, t, dtype=torch.bool, device=hidden.device).triu(1)
        if attention_mask is not None:  # 1 = token, 0 = padding
            block = block | (attention_mask == 0)[:, None, None, :]
        w = w.masked_fill(block, torch.finfo(w.dtype).min)
        w = nn.functional.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        o = torch.matmul(w, v).transpose(1, 2).reshape(b, t, -1)
        return self.o_proj(o)


class Block(nn.Module):
    def __init__(self, config=CONFIG):
        super().__init__()
        h = config["hidden_size"]
        self.n1, self.n2 = Norm(h, 1e-6), Norm(h, 1e-6)
        self.attn = GroupedAttention(config)
        self.up, self.gate = nn.Linear(h, 96, bias=False), nn.Linear(h, 96, bias=False)
        self.down = nn.Linear(96, h, bias=False)

    def forward(self, x, attention_mask=None):
        x = x + self.attn(self.n1(x), attention_mask)
        y = self.n2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


if __name__ == "__main__":
    torch.manual_seed(11)
    m = torch.tensor([[1] * 7, [1] * 5 + [0] * 2])
    print(Block()(torch.randn(2, 7, 48), m)[1, :5].mean())
