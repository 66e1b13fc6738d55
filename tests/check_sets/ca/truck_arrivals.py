"""Next-hour truck arrivals at the gates, a very small decoder-only model.

Written after Karpathy's "let's build GPT" lecture: single heads that are concatenated,
causal mask, learned positions.  Input are standardised hourly features, not tokens.
"""
import torch
import torch.nn as nn
from torch.nn import functional as F

n_feat = 24
n_head = 3
block_size = 48


class Head(nn.Module):
    """ one head of self-attention """

    def __init__(self, head_size):
        super().__init__()
        self.key = nn.Linear(n_feat, head_size, bias=False)
        self.query = nn.Linear(n_feat, head_size, bias=False)
        self.value = nn.Linear(n_feat, head_size, bias=False)
        self.register_buffer('tril', torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)   # (B,T,hs)
        q = self.query(x) # (B,T,hs)
        wei = q @ k.transpose(-2, -1) * k.shape[-1]**-0.5 # (B,T,hs) @ (B,hs,T) -> (B,T,T)
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float('-inf'))
        wei = F.softmax(wei, dim=-1)
        v = self.value(x)
        return wei @ v


class MultiHead(nn.Module):
    """ several heads side by side """

    def __init__(self, num_heads, head_size):
        super().__init__()
        self.heads = [Head(head_size) for _ in range(num_heads)]
        self.proj = nn.Linear(num_heads * head_size, n_feat)

    def forward(self, x):
        return self.proj(torch.cat([h(x) for h in self.heads], dim=-1))


class TruckModel(nn.Module):

    def __init__(self):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(block_size, n_feat) * 0.1)
        self.ln1 = nn.LayerNorm(n_feat)
        self.sa = MultiHead(n_head, n_feat // n_head)
        self.ln2 = nn.LayerNorm(n_feat)
        self.ffwd = nn.Sequential(
            nn.Linear(n_feat, 4 * n_feat),
            nn.ReLU(),
            nn.Linear(4 * n_feat, n_feat),
        )
        self.head = nn.Linear(n_feat, 1)

    def forward(self, x):
        """ x: (B,T,n_feat) -> expected arrivals in the next hour, (B,T) """
        T = x.shape[1]
        x += self.positions[:T]
        x = x + self.sa(self.ln1(x))
        x = x + self.ffwd(self.ln2(x))
        return F.softplus(self.head(x)).squeeze(-1)


if __name__ == '__main__':
    torch.manual_seed(1337)
    model = TruckModel()
    print(model(torch.randn(2, 24, n_feat)).shape)
