import torch


def partial(q, k, v):
    """The output of one shard and the log-sum-exp of its scores."""
    s = torch.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
    lse = torch.logsumexp(s, dim=-1)
    return torch.einsum("bhts,bhsd->bhtd", torch.exp(s - lse.unsqueeze(-1)), v), lse


def attend_over_shards(q, k, v, num_shards=2):
    """Keys and values are cut into shards, as they lie on several devices; the partial results are merged by their log-sum-exps."""
    out, lse = None, None
    for ks, vs in zip(k.chunk(num_shards, dim=2), v.chunk(num_shards, dim=2)):
        o, l = partial(q, ks, vs)
        if out is None:
            out, lse = o, l
            continue
        top = torch.maximum(lse, l)
        a, b = torch.exp2(lse - top), torch.exp2(l - top)
        out = (out * a.unsqueeze(-1) + o * b.unsqueeze(-1)) / (a + b).unsqueeze(-1)
        lse = top + torch.log2(a + b)
    return out
