import torch


def attend_with_sinks(q, k, v, sinks, window=None):
    """q (B, Hq, T, D); k, v (B, Hkv, S, D) with S >= T; sinks (Hq,).

    Causal, the last query sits on the last key.  `window` is the number of
    visible keys, the query's own included; None means unlimited.
    Each head owns a sink logit that takes part in the normalisation and
    carries no value, so the weights of a row add up to less than one.
    """
    B, Hq, T, D = q.shape
    S = k.shape[2]
    rep = Hq // k.shape[1]
    k = k.repeat_interleave(rep, dim=1)
    v = v.repeat_interleave(rep, dim=1)
    s = (q.float() @ k.float().mT) * D ** -0.5
    back = torch.arange(S - T, S)[:, None] - torch.arange(S)[None, :]
    visible = back >= 0
    if window is not None:
        visible &= back < window
    s = s.masked_fill(~visible.to(s.device), float("-inf"))
    sink = sinks.float().view(1, Hq, 1, 1).expand(B, Hq, T, 1)
    p = torch.cat([s, sink], dim=-1).softmax(dim=-1)[..., :-1]
    return (p @ v.float()).to(q.dtype)
