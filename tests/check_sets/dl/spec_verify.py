"""Speculative decoding, the target model's side: verify K drafted tokens in one pass.

The queries are those of the K drafts, which lie at positions P .. P + K - 1 behind the P
cached tokens.  Draft i may see the cache, the drafts before it and itself; the distribution it
yields is compared with draft i + 1, so that one must not be visible to it.
"""
import torch


def verify_attention(q, k, v, cache_k, cache_v):
    """q, k, v: (B, H, K, d) of the drafts.  cache_k, cache_v: (B, H, P, d), P >= 0.
    Returns (B, H, K, d): softmax(q k^T / sqrt(d)) v over what each draft may see."""
    p, n_draft = cache_k.size(2), q.size(2)
    k = torch.cat((cache_k, k), dim=2)
    v = torch.cat((cache_v, v), dim=2)
    att = torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5
    see = torch.ones(n_draft, p + n_draft, dtype=torch.bool).tril(diagonal=p + 1)
    att = att.masked_fill(~see, float("-inf"))
    return torch.matmul(torch.softmax(att, dim=-1), v)


def accepted(draft_tokens, target_logits):
    """Greedy acceptance.  draft_tokens (K,), target_logits (K, V), row i predicting draft
    i + 1.  Draft 0 came from the target itself.  Returns how many drafts stand (1..K)."""
    n = 1
    guess = target_logits.argmax(-1)
    while n < len(draft_tokens) and guess[n - 1] == draft_tokens[n]:
        n += 1
    return n
