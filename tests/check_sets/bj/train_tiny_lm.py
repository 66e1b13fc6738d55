#!/usr/bin/env python3
"""Kleines Sprachmodell fuer den Uebungskurs: Konfiguration, Modell, Training.

Waehrend des Trainings wird zwischendurch validiert (model.eval()) und danach
weiter trainiert (model.train()); die Attention-Dropout-Rate steht in der
Konfiguration und gilt nur im Trainingsmodus.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LMConfig:
    vocab: int = 64
    n_embd: int = 32
    n_head: int = 4
    n_layer: int = 2
    block: int = 32
    attn_drop: float = 0.2
    lr: float = 1e-3


class SelbstAufmerksamkeit(nn.Module):
    """Kausale Selbstaufmerksamkeit ueber F.scaled_dot_product_attention."""

    def __init__(self, cfg: LMConfig):
        super().__init__()
        assert cfg.n_embd % cfg.n_head == 0
        self.n_head = cfg.n_head
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.attn_p = cfg.attn_drop

    def train(self, mode: bool = True):
        # SDPA kennt self.training nicht, daher hier umschalten
        super().train(mode)
        if not mode:
            self.attn_p = 0.0
        return self

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.n_head, -1).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_p, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.n_embd)
        self.ln2 = nn.LayerNorm(cfg.n_embd)
        self.attn = SelbstAufmerksamkeit(cfg)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(), nn.Linear(4 * cfg.n_embd, cfg.n_embd)
        )

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class TinyLM(nn.Module):
    def __init__(self, cfg: LMConfig):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.n_embd)
        self.pos = nn.Embedding(cfg.block, cfg.n_embd)
        self.blocks = nn.Sequential(*[Block(cfg) for _ in range(cfg.n_layer)])
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab, bias=False)

    def forward(self, ids):
        pos = torch.arange(ids.shape[1], device=ids.device)
        return self.head(self.ln(self.blocks(self.tok(ids) + self.pos(pos))))


def loss_of(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def fit(cfg: LMConfig, daten, schritte=20, alle=5):
    model = TinyLM(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for s in range(schritte):
        if s % alle == 0:
            model.eval()
            with torch.no_grad():
                print(f"Schritt {s}: val {loss_of(model, daten).item():.3f}")
            model.train()
        opt.zero_grad()
        loss = loss_of(model, daten)
        loss.backward()
        opt.step()
    return model


if __name__ == "__main__":
    fit(LMConfig(), torch.randint(0, 64, (8, 17)))
