"""
Streaming text-to-speech, acoustic decoder.

Frames come in chunks of any size.  Every layer keeps the keys and values of the last
`left_context` frames, so that a chunk can look back without being computed again.
"""
import torch
import torch.nn as nn


def make_state(n_layers):
    return [dict(k=None, v=None) for _ in range(n_layers)]


class ChunkedSelfAttention(nn.Module):
    """forward(x, state): x (B, C, dim), a chunk of C frames.

    A frame attends to the frames kept in the state (at most left_context) and to all frames
    of its own chunk.  state is a dict {k, v}, updated in place; None means no memory.
    """

    def __init__(self, dim=64, n_heads=4, left_context=20):
        super().__init__()
        self.n_heads = n_heads
        self.dh = dim // n_heads
        self.left_context = left_context
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, dim * 2)
        self.to_out = nn.Linear(dim, dim)

    def _heads(self, t):
        B, T, _ = t.shape
        return t.reshape(B, T, self.n_heads, self.dh).transpose(1, 2)

    def forward(self, x, state=None):
        B, C, D = x.shape
        q = self._heads(self.to_q(x))
        k, v = map(self._heads, self.to_kv(x).chunk(2, dim=-1))

        if state is not None:
            if state["k"] is not None:
                k = torch.cat((state["k"], k), dim=2)
                v = torch.cat((v, state["v"]), dim=2)
            state["k"] = k[:, :, -self.left_context:].detach()
            state["v"] = v[:, :, -self.left_context:].detach()

        att = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.dh ** 0.5
        att = att.softmax(dim=-1)
        y = torch.einsum("bhqk,bhkd->bhqd", att, v)
        return self.to_out(y.transpose(1, 2).reshape(B, C, D))


class DecoderLayer(nn.Module):
    def __init__(self, dim, n_heads, left_context):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = ChunkedSelfAttention(dim, n_heads, left_context)
        self.ff = nn.Sequential(nn.Linear(dim, dim * 4), nn.SiLU(), nn.Linear(dim * 4, dim))

    def forward(self, x, state):
        x = x + self.att(self.n1(x), state)
        return x + self.ff(self.n2(x))


class AcousticDecoder(nn.Module):
    def __init__(self, n_mels=80, dim=64, n_layers=3, n_heads=4, left_context=20):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(dim, n_heads, left_context) for _ in range(n_layers))
        self.mel = nn.Linear(dim, n_mels)

    @torch.inference_mode()
    def stream(self, chunks):
        state = make_state(len(self.layers))
        for x in chunks:
            for layer, s in zip(self.layers, state):
                x = layer(x, s)
            yield self.mel(x)


if __name__ == "__main__":
    dec = AcousticDecoder().eval()
    frames = torch.randn(1, 37, 64)
    print([m.shape[1] for m in dec.stream(frames.split(10, dim=1))])
