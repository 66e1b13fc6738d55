"""minichat: enough of a chat model to run on my laptop.  Prompts are fed in pieces ("chunked
prefill"): forward() may be called with several new tokens while the cache already holds some;
the new tokens stand at the end, each sees the cache, the new ones before it, and itself.

n_kv < n_head: query heads 0..r-1 belong to kv head 0, r..2r-1 to kv head 1, ... (r = n_head/n_kv)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KVStore:
    def __init__(self):
        self.k = self.v = None

    def add(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]


class GroupedAttention(nn.Module):
    def __init__(self, n_embd, n_head, n_kv):
        super().__init__()
        self.n_head, self.n_kv, self.hd = n_head, n_kv, n_embd // n_head
        self.c_q = nn.Linear(n_embd, n_head * self.hd, bias=False)
        self.c_k = nn.Linear(n_embd, n_kv * self.hd, bias=False)
        self.c_v = nn.Linear(n_embd, n_kv * self.hd, bias=False)
        self.c_o = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x, store=None):
        B, T, C = x.shape
        q = self.c_q(x).view(B, T, self.n_head, self.hd).transpose(1, 2)
        k = self.c_k(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.c_v(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        if store is not None:
            k, v = store.add(k, v)
        r = self.n_head // self.n_kv
        k, v = k.repeat(1, r, 1, 1), v.repeat(1, r, 1, 1)
        mask = None
        if T > 1:
            mask = torch.tril(torch.ones(T, k.shape[2], dtype=torch.bool, device=x.device))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.c_o(y.transpose(1, 2).reshape(B, T, C))


class Net(nn.Module):
    def __init__(self, vocab=64, n_embd=32, n_head=4, n_kv=2, depth=2, ctx=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(ctx, n_embd)
        self.att = nn.ModuleList(GroupedAttention(n_embd, n_head, n_kv) for _ in range(depth))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd)) for _ in range(depth))

    def forward(self, ids, stores=None):
        past = len(stores[0]) if stores else 0
        x = self.wte(ids) + self.wpe(torch.arange(past, past + ids.shape[1]))
        for i, (a, m) in enumerate(zip(self.att, self.mlp)):
            x = x + a(F.rms_norm(x, x.shape[-1:]), stores[i] if stores else None)
            x = x + m(F.rms_norm(x, x.shape[-1:]))
        return F.rms_norm(x, x.shape[-1:]) @ self.wte.weight.T


@torch.no_grad()
def chat(net, prompt, n_new, chunk=4):
    stores = [KVStore() for _ in net.att]
    for piece in prompt.split(chunk, dim=1):
        logits = net(piece, stores)
    out = []
    for _ in range(n_new):
        nxt = logits[:, -1:].argmax(-1)
        out.append(nxt)
        logits = net(nxt, stores)
    return torch.cat(out, 1)


if __name__ == "__main__":
    print(chat(Net(), torch.randint(0, 64, (1, 10)), 5))
