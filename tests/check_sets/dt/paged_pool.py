"""Paged KV cache (vLLM style), reference version that is used in the tests of the kernel.

    pool_k, pool_v (n_pages, page, Hkv, d)  pages of all sequences mixed together
    table          (B, max_pages) int64     page numbers of each sequence in order; entries
                                            after the last used page may hold anything >= 0
    n_ctx          (B,) int64               tokens in the cache of each sequence (the current
                                            token has been written already), >= 1
    q              (B, H, d)                one query per sequence (its last token)
    returns        (B, H, d)

Query head h reads kv head h // (H // Hkv). Scale 1/sqrt(d) unless given.
"""
import torch


def write_token(pool_k, pool_v, table, n_ctx, k, v):
    """Stores k, v (B, Hkv, d) at position n_ctx-1 of each sequence, in place."""
    page = pool_k.size(1)
    at = n_ctx - 1
    rows = table.gather(1, (at // page)[:, None]).squeeze(1)
    pool_k[rows, at % page] = k
    pool_v[rows, at % page] = v


def paged_decode(q, pool_k, pool_v, table, n_ctx, scale=None):
    B, H, d = q.shape
    _, page, Hkv, _ = pool_k.shape
    scale = d ** -0.5 if scale is None else scale
    used = int((n_ctx.max() + page - 1) // page)
    idx = table[:, :used].clamp(max=pool_k.size(0) - 1)
    k = pool_k[idx].flatten(1, 2)                        # (B, used*page, Hkv, d)
    v = pool_v[idx].flatten(1, 2)
    beyond = torch.arange(used * page, device=q.device)[None] >= n_ctx[:, None]
    v = v.masked_fill(beyond[:, :, None, None], 0)       # stale pages may hold NaN
    qg = q.view(B, Hkv, H // Hkv, d).float()
    s = torch.einsum("bkgd,btkd->bkgt", qg, k.float()) * scale
    s = s.masked_fill(beyond[:, None, None, :], float("-inf"))
    p = torch.softmax(s, dim=-1)
    return torch.einsum("bkgt,btkd->bkgd", p, v.float()).reshape(B, H, d).to(q.dtype)
