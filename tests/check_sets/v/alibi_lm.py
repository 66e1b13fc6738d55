from argparse import Namespace

import torch
from torch import nn

DEFAULT = Namespace(vocab_size=70, n_embd=64, n_head=8, n_layer=2, dropout=0.0)


def get_slopes(n_head):
    assert n_head & (n_head - 1) == 0, "power of two, please"
    return torch.tensor([2.0 ** (-8.0 * h / n_head) for h in range(n_head)])


class CausalSelfAttention(nn.Module):

    def __init__(self, args):
        super().__init__()
        self.n_head = args.n_head
        self.c_attn = nn.Linear(args.n_embd, 3 * args.n_embd)
        self.c_proj = nn.Linear(args.n_embd, args.n_embd)
        self.attn_dropout = nn.Dropout(args.dropout)
        self.register_buffer("slopes", get_slopes(args.n_head).view(1, -1, 1, 1))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)

        att = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)
        i = torch.arange(T, device=x.device)
        att = att + self.slopes * (i[None, :] - i[:, None])
        att = att.masked_fill(i[None, :] > i[:, None], float("-inf"))
        att = self.attn_dropout(att.softmax(-1))
        return self.c_proj((att @ v).transpose(1, 2).reshape(B, T, C))


class LM(nn.Module):
    """no position embeddings at all, only linear biases"""

    def __init__(self, args=DEFAULT):
        super().__init__()
        self.wte = nn.Embedding(args.vocab_size, args.n_embd)
        self.ln = nn.ModuleList([nn.LayerNorm(args.n_embd) for _ in range(2 * args.n_layer + 1)])
        self.att = nn.ModuleList([CausalSelfAttention(args) for _ in range(args.n_layer)])
        self.mlp = nn.ModuleList([
            nn.Sequential(nn.Linear(args.n_embd, 128), nn.GELU(), nn.Linear(128, args.n_embd))
            for _ in range(args.n_layer)
        ])

    def forward(self, idx):
        x = self.wte(idx)
        for l in range(len(self.att)):
            x = x + self.att[l](self.ln[2 * l](x))
            x = x + self.mlp[l](self.ln[2 * l + 1](x))
        return self.ln[-1](x) @ self.wte.weight.t()


if __name__ == "__main__":
    torch.manual_seed(4)
    print(LM()(torch.randint(0, 70, (1, 15))).std())
