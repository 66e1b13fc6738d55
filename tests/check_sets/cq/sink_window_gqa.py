import torch
from torch import nn, Tensor


class SinkWindowGQA(nn.Module):
    """Causal grouped-query attention with a sliding window and learned attention sinks.

    Like in gpt-oss, every head has one extra logit that takes part in the softmax but carries no
    value, so a head can attend to "nothing": the weights on real tokens sum to less than one.

    A token sees itself and the `band - 1` tokens before it.  Query heads are grouped, i.e. query
    heads 0..r-1 use kv head 0 and so on.

    stream: (B, T, width) -> (B, T, width)
    """

    def __init__(self, width: int = 32, n_seekers: int = 4, n_keepers: int = 2, band: int = 3):
        super().__init__()
        self.n_seekers, self.n_keepers, self.band = n_seekers, n_keepers, band
        self.unit = width // n_seekers
        self.seek = nn.Linear(width, n_seekers * self.unit)
        self.keep = nn.Linear(width, n_keepers * self.unit)
        self.gift = nn.Linear(width, n_keepers * self.unit)
        self.void = nn.Parameter(torch.randn(n_seekers))
        self.exit = nn.Linear(n_seekers * self.unit, width)

    def forward(self, stream: Tensor) -> Tensor:
        B, T, _ = stream.shape
        r = self.n_seekers // self.n_keepers
        s = self.seek(stream).view(B, T, self.n_keepers, r, self.unit)
        k = self.keep(stream).view(B, T, self.n_keepers, self.unit)
        g = self.gift(stream).view(B, T, self.n_keepers, self.unit)

        logits = torch.einsum("btnru,bsnu->bnrts", s, k) * self.unit ** -0.5
        t = torch.arange(T, device=stream.device)
        lag = t[:, None] - t[None, :]
        visible = (lag >= 0) & (lag < self.band)
        logits = logits.masked_fill(~visible, float("-inf"))

        void = self.void.view(1, self.n_keepers, r, 1, 1).expand(B, -1, -1, T, 1)
        share = torch.cat([logits, void], dim=-1).softmax(dim=-1)[..., :-1]

        y = torch.einsum("bnrts,bsnu->btnru", share, g).reshape(B, T, -1)
        return self.exit(y)
