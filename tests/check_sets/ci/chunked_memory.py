"""Memory-efficient attention: queries and keys are visited in chunks (Rabe & Staats)."""
import torch


def _one_query_chunk(q, k, v, keep, k_chunk):
    """q (B, H, c, d) already scaled; keep (B, c, S) bool."""
    B, H, c, _ = q.shape
    m = q.new_full((B, H, c, 1), float("-inf"))
    num = q.new_zeros(B, H, c, v.shape[-1])
    den = q.new_zeros(B, H, c, 1)
    for s in range(0, k.shape[2], k_chunk):
        kk, vv = k[:, :, s:s + k_chunk], v[:, :, s:s + k_chunk]
        score = q @ kk.transpose(-1, -2)
        score = score.masked_fill(~keep[:, None, :, s:s + k_chunk], float("-inf"))
        m_new = torch.maximum(m, score.amax(-1, keepdim=True))
        # rows that have seen nothing yet: keep exp() away from inf - inf
        safe = m_new.masked_fill(m_new == float("-inf"), 0.0)
        old = torch.exp(m - safe)
        p = torch.exp(score - safe)
        num = num * old + p @ vv
        den = den * old + p.sum(-1, keepdim=True)
        m = m_new
    return num / den.masked_fill(den == 0, 1.0)


def chunked_attention(q, k, v, keep=None, causal=False, q_chunk=4, k_chunk=4):
    """q (B, H, T, d), k (B, H, S, d), v (B, H, S, e) -> (B, H, T, e).

    keep: (B, S) bool, True for keys that may be seen. causal aligns the last query
    with the last key. A query that may see nothing gets zeros.
    """
    B, _, T, d = q.shape
    S = k.shape[2]
    q = q * d ** -0.5
    allowed = torch.ones(B, T, S, dtype=torch.bool, device=q.device)
    if keep is not None:
        allowed = allowed & keep[:, None, :]
    if causal:
        allowed = allowed & torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
    out = [_one_query_chunk(q[:, :, t:t + q_chunk], k, v, allowed[:, t:t + q_chunk], k_chunk)
           for t in range(0, T, q_chunk)]
    return torch.cat(out, dim=2)
