import torch


def spans(cuts):
    c = cuts.tolist()
    return list(zip(c[:-1], c[1:]))


def handoff_read(new, old, new_cuts, old_cuts, *, causal=False, tau=None):
    """Packed (no padding) attention over many conversations.

    new (N, H, d) tokens of all conversations one after another; old = (keys, values), each
    (M, H, d). new_cuts / old_cuts: (B+1,) borders, conversation b is [cuts[b], cuts[b+1]).
    causal: the last new token of a conversation is aligned with its last old token; then every
    conversation has at least as many old tokens as new ones. tau: temperature, default sqrt(d).
    A conversation without old tokens yields zeros.
    """
    kk, vv = old
    tau = new.size(-1) ** 0.5 if tau is None else tau
    out = []
    for (a, b), (c, e) in zip(spans(new_cuts), spans(old_cuts)):
        q, k, v = new[a:b].transpose(0, 1), kk[c:e].transpose(0, 1), vv[c:e].transpose(0, 1)
        s = torch.bmm(q, k.transpose(1, 2)) / tau
        if causal:
            n, m = s.shape[1:]
            late = torch.arange(m)[None] > torch.arange(n)[:, None] + (m - n)
            s = s.masked_fill(late.to(s.device), float("-inf"))
        out.append(torch.bmm(s.softmax(-1), v).transpose(0, 1))
    return torch.cat(out)
