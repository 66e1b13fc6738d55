# decode kernel, reference version (slow, for unit tests of the fast one)
import torch


def paged_decode(query, key_pages, value_pages, block_tables, context_lens, scale=None):
    """
    query         [num_seqs, num_q_heads, head_dim]     one new token each
    key_pages     [num_pages, page_size, num_kv_heads, head_dim]
    value_pages   [num_pages, page_size, num_kv_heads, head_dim]
    block_tables  [num_seqs, max_blocks]  page ids, unused entries are anything
    context_lens  [num_seqs]  tokens in the cache, the new one included; 0 = idle slot
    Consecutive query heads share a kv head.  Idle slots give zeros.
    """
    n, hq, d = query.shape
    page, hkv = key_pages.shape[1:3]
    group = hq // hkv
    scale = d ** -0.5 if scale is None else scale
    out = torch.zeros_like(query)
    for i in range(n):
        ctx = int(context_lens[i])
        if ctx == 0:
            continue
        ids = block_tables[i, : (ctx + page - 1) // page].long()
        k = key_pages[ids].reshape(-1, hkv, d)[:ctx].float()
        v = value_pages[ids].reshape(-1, hkv, d)[:ctx].float()
        q = query[i].float().view(hkv, group, d)
        s = torch.einsum("hgd,thd->hgt", q, k) * scale
        p = torch.softmax(s, dim=-1)
        out[i] = torch.einsum("hgt,thd->hgd", p, v).reshape(hq, d).to(out.dtype)
    return out
