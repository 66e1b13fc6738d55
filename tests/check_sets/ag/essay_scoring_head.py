# %% [markdown]
# ### Automated essay scoring: pooling head on top of a frozen backbone
# LB 0.812 with 5 folds. `last_hidden_state` is dumped to disk, we only train this part.

# %%
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class CFG:
    hidden = 768
    heads = 12
    att_dropout = 0.1
    n_targets = 1
    seed = 42


def seed_everything(seed=CFG.seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


# %%
class SelfAttentionHead(nn.Module):
    """One more transformer-style attention over the token states."""

    def __init__(self, cfg=CFG):
        super().__init__()
        self.n_heads = cfg.heads
        self.hidden = cfg.hidden
        self.p = cfg.att_dropout
        self.query = nn.Linear(cfg.hidden, cfg.hidden)
        self.key = nn.Linear(cfg.hidden, cfg.hidden)
        self.value = nn.Linear(cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.hidden)

    def split(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.n_heads, self.hidden // self.n_heads).permute(0, 2, 1, 3)

    def forward(self, x, attention_mask=None):
        # attention_mask: 1 = token, 0 = padding (as it comes out of the tokenizer)
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        att = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.hidden)
        if attention_mask is not None:
            m = attention_mask[:, None, None, :]
            att = att.masked_fill(m == 0, torch.finfo(att.dtype).min)
        att = F.softmax(att, dim=-1)
        att = F.dropout(att, p=self.p)
        y = torch.matmul(att, v).permute(0, 2, 1, 3).flatten(2)
        return self.out(y)


class MeanPooling(nn.Module):
    def forward(self, x, attention_mask):
        m = attention_mask.unsqueeze(-1).to(x.dtype)
        return (x * m).sum(1) / m.sum(1).clamp(min=1e-9)


class EssayModel(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.att = SelfAttentionHead(cfg)
        self.norm = nn.LayerNorm(cfg.hidden)
        self.pool = MeanPooling()
        self.fc = nn.Linear(cfg.hidden, cfg.n_targets)

    def forward(self, states, attention_mask):
        h = self.norm(states + self.att(states, attention_mask))
        return self.fc(self.pool(h, attention_mask)).squeeze(-1)


# %%
def train_fn(model, loader, optimizer, device="cpu"):
    model.train()
    total = 0.0
    for states, mask, y in loader:
        pred = model(states.to(device), mask.to(device))
        loss = F.smooth_l1_loss(pred, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(y)
    return total


@torch.no_grad()
def valid_fn(model, loader, device="cpu"):
    model.eval()
    return torch.cat([model(s.to(device), m.to(device)).cpu() for s, m, _ in loader]).numpy()


# %%
if __name__ == "__main__":
    seed_everything()
    model = EssayModel()
    states = torch.randn(4, 10, CFG.hidden)
    mask = torch.ones(4, 10, dtype=torch.long)
    mask[0, 6:] = 0
    data = [(states, mask, torch.rand(4))]
    print(train_fn(model, data, torch.optim.AdamW(model.parameters(), lr=1e-4)))
    print(valid_fn(model, data))
