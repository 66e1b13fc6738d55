# Entity attention policy for a small multi-unit battle game (PPO).
from dataclasses import dataclass
from typing import Dict

import torch
from torch import Tensor, nn


@dataclass
class EntityCfg:
    self_dim: int = 10
    entity_dim: int = 7
    embed: int = 32
    heads: int = 4
    n_actions: int = 6


def ortho(layer: nn.Linear, gain: float = 1.0) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class EntityAttention(nn.Module):
    """Every entity attends to the entities that are in sight.

    ents:    (B, E, embed)
    visible: (B, E) bool -- True when the entity is in sight; the rest of the rows is filler
             and must not have any influence.  The agent itself (row 0) is always visible.
    """

    def __init__(self, cfg: EntityCfg):
        super().__init__()
        self.h, self.d = cfg.heads, cfg.embed // cfg.heads
        self.pre = nn.LayerNorm(cfg.embed)
        self.qkv = ortho(nn.Linear(cfg.embed, 3 * cfg.embed), 0.5 ** 0.5)
        self.post = ortho(nn.Linear(cfg.embed, cfg.embed), 0.5 ** 0.5)

    def forward(self, ents: Tensor, visible: Tensor) -> Tensor:
        B, E, C = ents.shape
        q, k, v = self.qkv(self.pre(ents)).view(B, E, self.h, 3 * self.d).transpose(1, 2).chunk(3, dim=-1)
        logits = torch.matmul(q, k.transpose(-1, -2)) * self.d ** -0.5
        attn = torch.softmax(logits, dim=-1)
        attn = attn * visible[:, None, None, :].to(attn.dtype)
        out = torch.matmul(attn, v).transpose(1, 2).reshape(B, E, C)
        return ents + self.post(out)


class EntityPolicy(nn.Module):
    def __init__(self, cfg: EntityCfg):
        super().__init__()
        self.own = ortho(nn.Linear(cfg.self_dim, cfg.embed))
        self.other = ortho(nn.Linear(cfg.entity_dim, cfg.embed))
        self.attend = EntityAttention(cfg)
        self.trunk = nn.Sequential(ortho(nn.Linear(2 * cfg.embed, 64)), nn.Tanh())
        self.pi = ortho(nn.Linear(64, cfg.n_actions), 0.01)
        self.vf = ortho(nn.Linear(64, 1))

    def forward(self, obs: Dict[str, Tensor]) -> Dict[str, Tensor]:
        me = self.own(obs["self"]).unsqueeze(1)
        ents = torch.cat([me, self.other(obs["entities"])], dim=1)
        visible = torch.cat([torch.ones_like(obs["visible"][:, :1]), obs["visible"]], dim=1).bool()
        x = self.attend(torch.tanh(ents), visible)
        w = visible.unsqueeze(-1).to(x.dtype)
        pooled = (x * w).sum(1) / w.sum(1)
        h = self.trunk(torch.cat([x[:, 0], pooled], dim=-1))
        logits = self.pi(h)
        if "action_mask" in obs:
            logits = logits.masked_fill(~obs["action_mask"].bool(), torch.finfo(logits.dtype).min)
        return {"logits": logits, "value": self.vf(h).squeeze(-1)}
