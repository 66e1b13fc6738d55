"""Re-ranking of candidate tails for knowledge-graph completion.

A query (head, relation) attends, with ordinary scaled dot-product attention, over
the known neighbour facts of the head entity; the context is added to the query and
compared with each candidate tail.
"""
import torch
import torch.nn as nn


class FactAttention(nn.Module):
    """Multi-head scaled dot-product cross attention, query [B, D], facts [B, M, D]."""

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, query, facts, fact_mask):
        B, M, D = facts.shape
        q = self.query(query).view(B, self.num_heads, 1, self.head_dim)
        k = self.key(facts).view(B, M, self.num_heads, self.head_dim).permute(0, 2, 3, 1)
        v = self.value(facts).view(B, M, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        logits = torch.matmul(q, k) / self.head_dim
        logits = logits.masked_fill(fact_mask[:, None, None, :] == 0, -1e9)
        probs = torch.softmax(logits, dim=-1)
        ctx = torch.matmul(probs, v).view(B, D)
        return self.proj(ctx)


class TripleReranker(nn.Module):
    def __init__(self, n_entities: int = 500, n_relations: int = 20, dim: int = 64,
                 num_heads: int = 4):
        super().__init__()
        self.entity = nn.Embedding(n_entities, dim)
        self.relation = nn.Embedding(n_relations, dim)
        self.compose = nn.Linear(2 * dim, dim)
        self.attn = FactAttention(dim, num_heads)
        self.norm = nn.LayerNorm(dim)

    def pair(self, ent, rel):
        return self.compose(torch.cat([self.entity(ent), self.relation(rel)], dim=-1))

    def forward(self, head, rel, fact_rel, fact_tail, fact_mask, candidates):
        q = self.pair(head, rel)
        facts = self.pair(fact_tail, fact_rel)
        q = self.norm(q + self.attn(q, facts, fact_mask))
        return torch.einsum("bd,bcd->bc", q, self.entity(candidates))
