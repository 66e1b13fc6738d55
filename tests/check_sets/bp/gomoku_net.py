# Policy/value transformer for 9x9 gomoku, self play on one GPU.
# The board is a sequence of 81 tokens; black = 1, white = 2, empty = 0.
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 9


class BoardAttention(nn.Module):
    """Full (non causal) attention between the points of the board.

    Dropout acts on the attention weights in training mode only.
    """

    def __init__(self, channels, n_head, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.p = dropout
        self.in_proj = nn.Linear(channels, 3 * channels)
        self.out_proj = nn.Linear(channels, channels)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.in_proj(x).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if not self.training:
            self.p = 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        y = y.transpose(1, 2).reshape(B, T, C)
        return self.out_proj(y)


class Block(nn.Module):
    def __init__(self, channels, n_head, dropout):
        super().__init__()
        self.norm1 = nn.LayerNorm(channels)
        self.attn = BoardAttention(channels, n_head, dropout)
        self.norm2 = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 2 * channels), nn.ReLU(), nn.Linear(2 * channels, channels)
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GomokuNet(nn.Module):
    def __init__(self, channels=32, n_head=4, depth=3, dropout=0.1):
        super().__init__()
        self.stone = nn.Embedding(3, channels)
        self.point = nn.Parameter(0.02 * torch.randn(SIZE * SIZE, channels))
        self.blocks = nn.Sequential(*[Block(channels, n_head, dropout) for _ in range(depth)])
        self.policy = nn.Linear(channels, 1)
        self.value = nn.Linear(channels, 1)

    def forward(self, board):
        """board (B, 81) long -> log policy (B, 81), value (B,)"""
        x = self.blocks(self.stone(board) + self.point)
        logits = self.policy(x).squeeze(-1)
        logits = logits.masked_fill(board != 0, float("-inf"))
        return F.log_softmax(logits, -1), torch.tanh(self.value(x.mean(1))).squeeze(-1)


def symmetries(board):
    """The eight symmetries of a (81,) board."""
    b = board.view(SIZE, SIZE)
    out = []
    for k in range(4):
        r = torch.rot90(b, k)
        out += [r.reshape(-1), r.flip(0).reshape(-1)]
    return out


def self_play_loop(net, optimizer, games, batches):
    for _ in range(games):
        net.eval()
        with torch.no_grad():
            net(torch.zeros(1, SIZE * SIZE, dtype=torch.long))
        net.train()
        for board, pi, z in batches:
            logp, v = net(board)
            loss = -(pi * logp.masked_fill(pi == 0, 0.0)).sum(-1).mean() + F.mse_loss(v, z)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
