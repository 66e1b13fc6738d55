import torch


def sink_attention(q, k, v, sinks, window=None):
    """Causal attention with one learned sink logit for each head.

    q (B, H, L, D); k, v (B, G, L, D) with H a multiple of G, query head h reading kv head
    h // (H // G).
    sinks (H,): logit of a virtual key whose value is zero; it only takes probability mass.
    window: a token sees itself and the window - 1 tokens before it; None means no limit.
    """
    B, H, L, D = q.shape
    G = k.shape[1]
    qg = q.reshape(B, G, H // G, L, D)
    logits = torch.einsum("bgrid,bgjd->bgrij", qg, k) * D ** -0.5
    i = torch.arange(L, device=q.device)[:, None]
    j = torch.arange(L, device=q.device)[None, :]
    visible = j <= i
    if window is not None:
        visible = visible & (i - j < window)
    logits = logits.masked_fill(~visible, float("-inf"))
    s = sinks.view(1, G, H // G, 1, 1).expand(B, -1, -1, L, 1).to(logits.dtype)
    p = torch.cat([logits, s], dim=-1).float().softmax(dim=-1)[..., :-1].to(v.dtype)
    return torch.einsum("bgrij,bgjd->bgrid", p, v).reshape(B, H, L, D)
