import torch
import torch.nn as nn


class RollingAttention(nn.Module):
    def __init__(self, dim=32, n_head=4, window=5):
        super().__init__()
        self.n_head, self.hd, self.window = n_head, dim // n_head, window
        self.wqkv = nn.Linear(dim, 3 * dim)
        self.wo = nn.Linear(dim, dim)

    def _qkv(self, x):
        q, k, v = self.wqkv(x).split(x.size(-1), dim=-1)
        return [t.unflatten(-1, (self.n_head, self.hd)) for t in (q, k, v)]

    def forward(self, x):
        q, k, v = (t.transpose(1, 2) for t in self._qkv(x))
        i = torch.arange(x.size(1), device=x.device)
        d = i[:, None] - i[None, :]
        ok = (d >= 0) & (d < self.window)
        s = (q @ k.mT) / self.hd**0.5
        s = s.masked_fill(~ok, float("-inf"))
        return self.wo((s.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def new_cache(self, batch):
        z = torch.zeros(batch, self.window, self.n_head, self.hd)
        return {"k": z, "v": z.clone(), "pos": 0}

    @torch.no_grad()
    def step(self, x, cache):
        q, k, v = self._qkv(x)
        slot = cache["pos"] % self.window
        cache["k"][:, slot] = k
        cache["v"][:, slot] = v
        cache["pos"] += 1
        n = min(cache["pos"], self.window)
        s = torch.einsum("bhd,bnhd->bhn", q, cache["k"][:, :n]) / self.hd**0.5
        y = torch.einsum("bhn,bnhd->bhd", s.softmax(-1), cache["v"][:, :n])
        return self.wo(y.flatten(1)), cache


if __name__ == "__main__":
    m = RollingAttention().eval()
    x = torch.randn(2, 12, 32)
    c = m.new_cache(2)
    with torch.no_grad():
        ys = [m.step(x[:, t], c)[0] for t in range(12)]
        print((torch.stack(ys, 1) - m(x)).abs().max())
