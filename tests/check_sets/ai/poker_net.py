"""Self-play value network for heads-up poker. Betting rounds are a sequence of actions.

The trainer alternates: net.eval() while games are played, net.train() for the updates.
"""
import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

Sample = collections.namedtuple("Sample", "cards actions n_actions reward")


class ReplayBuffer:
    def __init__(self, capacity=100_000):
        self.data = collections.deque(maxlen=capacity)

    def push(self, *args):
        self.data.append(Sample(*args))

    def draw(self, n):
        batch = random.sample(self.data, n)
        return Sample(*(torch.stack([torch.as_tensor(x) for x in col]) for col in zip(*batch)))

    def __len__(self):
        return len(self.data)


class HistoryAttention(nn.Module):
    """Causal attention over the actions, with dropout on the weights during training."""

    def __init__(self, width, heads, p_drop=0.1):
        super().__init__()
        self.h, self.dk = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.p_drop = p_drop

    def forward(self, x):
        b, t, w = x.shape
        if not self.training:
            self.p_drop = 0.0
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.h, self.dk).transpose(1, 2)
        k = k.view(b, t, self.h, self.dk).transpose(1, 2)
        v = v.view(b, t, self.h, self.dk).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p_drop, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads, p_drop):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = HistoryAttention(width, heads, p_drop)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ff(self.ln2(x))


class PokerNet(nn.Module):
    def __init__(self, n_actions=12, width=64, heads=4, blocks=2, p_drop=0.1, max_len=40):
        super().__init__()
        self.card = nn.EmbeddingBag(53, width, mode="sum", padding_idx=0)
        self.action = nn.Embedding(n_actions + 1, width, padding_idx=0)
        self.step = nn.Embedding(max_len, width)
        self.blocks = nn.ModuleList(Block(width, heads, p_drop) for _ in range(blocks))
        self.value = nn.Linear(width, 1)
        self.policy = nn.Linear(width, n_actions)

    def forward(self, cards, actions, n_actions):
        """cards [B, 7], actions [B, T] (0 = nothing yet, right padded), n_actions [B] >= 1"""
        t = actions.size(1)
        x = self.action(actions) + self.step.weight[:t] + self.card(cards).unsqueeze(1)
        for blk in self.blocks:
            x = blk(x)
        last = x[torch.arange(x.size(0)), n_actions - 1]
        return self.value(last).squeeze(-1), self.policy(last)


class Trainer:
    def __init__(self, net, lr=3e-4):
        self.net = net
        self.opt = torch.optim.AdamW(net.parameters(), lr=lr)
        self.buffer = ReplayBuffer()

    @torch.no_grad()
    def act(self, cards, actions, n_actions, legal):
        self.net.eval()
        _, logits = self.net(cards, actions, n_actions)
        return torch.distributions.Categorical(logits=logits.masked_fill(~legal, -1e9)).sample()

    def update(self, batch_size=64):
        self.net.train()
        s = self.buffer.draw(batch_size)
        value, _ = self.net(s.cards, s.actions, s.n_actions)
        loss = F.smooth_l1_loss(value, s.reward.float())
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        return loss.item()
