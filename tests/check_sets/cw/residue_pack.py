import torch


def attend_chains(q, k, v, cu_seqlens, causal=False):
    """Attention inside each protein chain of a packed batch.

    q: (T, H, D); k, v: (T, G, D) with H a multiple of G, where query head h reads
    group h // (H // G). Chain c occupies the rows cu_seqlens[c]:cu_seqlens[c+1]; a chain
    may be empty. Residues of different chains never mix. Returns (T, H, D) in the dtype
    of q; the arithmetic is done in float32 or better.
    """
    T, H, D = q.shape
    G = k.shape[1]
    if H % G:
        raise ValueError("H must be a multiple of G")
    work = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros_like(q)
    bounds = cu_seqlens.tolist()
    for lo, hi in zip(bounds[:-1], bounds[1:]):
        if hi == lo:
            continue
        n = hi - lo
        qc = q[lo:hi].to(work).reshape(n, G, H // G, D)
        kc = k[lo:hi].to(work)
        vc = v[lo:hi].to(work)
        s = torch.einsum("igrd,jgd->grij", qc, kc) / D ** 0.5
        if causal:
            s = s + torch.full((n, n), float("-inf"), device=s.device, dtype=work).triu(1)
        p = torch.softmax(s, dim=-1)
        out[lo:hi] = torch.einsum("grij,jgd->igrd", p, vc).reshape(n, H, D).to(q.dtype)
    return out
