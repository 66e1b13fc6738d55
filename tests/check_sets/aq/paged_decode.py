"""Reference path of the decode step over a paged KV cache (used in CI beside the CUDA kernel)."""
from dataclasses import dataclass, field
import torch


@dataclass
class BlockPool:
    """key/value storage [num_blocks, block_size, kv_heads, head_dim] and a free list"""
    num_blocks: int
    block_size: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = torch.float32
    free: list = field(default_factory=list)

    def __post_init__(self):
        shape = (self.num_blocks, self.block_size, self.kv_heads, self.head_dim)
        self.k = torch.zeros(shape, dtype=self.dtype)
        self.v = torch.zeros(shape, dtype=self.dtype)
        self.free = list(range(self.num_blocks))[::-1]

    def allocate(self, n):
        if n > len(self.free):
            raise MemoryError("out of KV blocks")
        return [self.free.pop() for _ in range(n)]

    def write(self, table, pos, k, v):
        """one token at logical position pos of the sequence that owns the table"""
        blk, off = table[pos // self.block_size], pos % self.block_size
        self.k[blk, off] = k
        self.v[blk, off] = v


def paged_attention_ref(query, k_cache, v_cache, block_tables, context_lens, scale=None):
    """query [S, H, d], one token for each of the S running sequences.

    block_tables [S, max_blocks] long, unused entries -1.  context_lens [S] counts
    the tokens in the cache, the present one included.  Query heads that stand
    next to one another share a KV head.  Empty slots (length 0) give zeros.
    """
    S, H, d = query.shape
    bs, Hkv = k_cache.shape[1], k_cache.shape[2]
    scale = d ** -0.5 if scale is None else scale
    tables = block_tables.clamp_min(0)
    k = k_cache[tables].reshape(S, -1, Hkv, d)
    v = v_cache[tables].reshape(S, -1, Hkv, d)
    live = torch.arange(k.shape[1], device=query.device)[None] < context_lens[:, None]
    v = v.masked_fill(~live[:, :, None, None], 0)
    q = query.view(S, Hkv, H // Hkv, d)
    s = torch.einsum("sgrd,stgd->sgrt", q.float(), k.float()) * scale
    s = s.masked_fill(~live[:, None, None, :], float("-inf"))
    m = s.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    p = torch.exp(s - m)
    l = p.sum(-1, keepdim=True)
    o = torch.einsum("sgrt,stgd->sgrd", p / l.clamp_min(1e-30), v.float())
    return o.reshape(S, H, d).to(query.dtype)


class Sequence:
    def __init__(self, pool, max_tokens):
        self.pool = pool
        self.table = pool.allocate(-(-max_tokens // pool.block_size))
        self.length = 0

    def append(self, k, v):
        self.pool.write(self.table, self.length, k, v)
        self.length += 1

    def release(self):
        self.pool.free.extend(self.table)
        self.table, self.length = [], 0
