import torch


def capped_attention(q, k, v, cap=50.0, causal=True, key_padding_mask=None):
    """Gemma-2 style attention with logit soft-capping.

    q, k, v: (batch, heads, length, dim), equal lengths.
    cap: logits are squashed smoothly into (-cap, cap) by cap * tanh(logits / cap).
    causal: token i sees tokens 0..i only.
    key_padding_mask: (batch, length) bool, True = padding, gets exactly zero weight.
        Padding is on the right and the first token is always real.
    """
    L = q.size(-2)
    logits = torch.matmul(q, k.transpose(-2, -1)) * q.size(-1) ** -0.5
    hidden = torch.zeros(1, 1, L, L, dtype=torch.bool, device=q.device)
    if causal:
        hidden = hidden | torch.ones(L, L, dtype=torch.bool, device=q.device).triu(1)
    if key_padding_mask is not None:
        hidden = hidden | key_padding_mask[:, None, None, :]
    logits = logits.masked_fill(hidden, float("-inf"))
    logits = cap * torch.tanh(logits / cap)
    probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(probs, v)
