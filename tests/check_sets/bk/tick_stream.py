import torch
from torch import nn, Tensor

# Order-book encoder. One day has ~1e6 ticks, so: kernel attention, O(T).
#
#   y_t = sum_{s<=t} phi(q_t).phi(k_s) v_s  /  sum_{s<=t} phi(q_t).phi(k_s)
#
# with phi = relu^2 + small constant, i.e. a weighted mean of the past values with
# weights that are positive and add up to 1.


def phi(x: Tensor) -> Tensor:
    return x.relu().square() + 1e-2


class TickMixer(nn.Module):
    """Causal kernel attention, x [B, T, C] -> [B, T, C]."""

    def __init__(self, channels: int, heads: int):
        super().__init__()
        if channels % heads:
            raise ValueError("channels must be a multiple of heads")
        self.heads = heads
        self.q = nn.Linear(channels, channels, bias=False)
        self.k = nn.Linear(channels, channels, bias=False)
        self.v = nn.Linear(channels, channels, bias=False)
        self.o = nn.Linear(channels, channels, bias=False)

    def split(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        return x.view(B, T, self.heads, C // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        B, T, C = x.shape
        q, k, v = phi(self.split(self.q(x))), phi(self.split(self.k(x))), self.split(self.v(x))
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(dim=2)
        num = torch.einsum("bhtd,bhtde->bhte", q, kv)
        den = torch.einsum("bhtd,bhd->bht", q, k.sum(dim=2))
        y = num / den.unsqueeze(-1)
        return self.o(y.transpose(1, 2).reshape(B, T, C))


class BookEncoder(nn.Module):
    """Level-2 snapshots [B, T, levels, 4] (bid, bid size, ask, ask size)."""

    def __init__(self, levels: int = 5, channels: int = 32, heads: int = 4, depth: int = 2):
        super().__init__()
        self.inp = nn.Linear(levels * 4, channels)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict(dict(
                n1=nn.LayerNorm(channels),
                mix=TickMixer(channels, heads),
                n2=nn.LayerNorm(channels),
                ff=nn.Sequential(nn.Linear(channels, 64), nn.GELU(), nn.Linear(64, channels)),
            )))
        self.up_down_flat = nn.Linear(channels, 3)

    @staticmethod
    def normalise(book: Tensor) -> Tensor:
        mid = (book[..., :1, 0:1] + book[..., :1, 2:3]) / 2
        price = (book[..., 0::2] / mid - 1) * 1e4            # basis points
        size = book[..., 1::2].log1p()
        return torch.cat([price, size], dim=-1)

    def forward(self, book: Tensor) -> Tensor:
        x = self.inp(self.normalise(book).flatten(-2))
        for l in self.layers:
            x = x + l["mix"](l["n1"](x))
            x = x + l["ff"](l["n2"](x))
        return self.up_down_flat(x)
