"""Sensor fusion for the warehouse arm: latents read a variable number of tokens.

tokens  (B, N, token_dim)   lidar clusters, camera patches, joint states ...
valid   (B, N) bool         True where a token is real
"""
import torch
from torch import nn


class FeedForward(nn.Sequential):
    def __init__(self, dim, mult=2):
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class LatentReader(nn.Module):
    """Cross attention, latents are the queries.  Returns latents and mean weights."""

    def __init__(self, latent_dim, token_dim, heads):
        super().__init__()
        self.norm_l = nn.LayerNorm(latent_dim)
        self.norm_t = nn.LayerNorm(token_dim)
        self.mha = nn.MultiheadAttention(
            embed_dim=latent_dim, num_heads=heads, kdim=token_dim, vdim=token_dim, batch_first=True
        )

    def forward(self, latents, tokens, valid=None):
        t = self.norm_t(tokens)
        ignore = None if valid is None else ~valid
        out, w = self.mha(self.norm_l(latents), t, t, key_padding_mask=ignore)
        return latents + out, w


class FusionNet(nn.Module):
    def __init__(self, token_dim=24, latent_dim=32, n_latents=6, heads=4, layers=2, action_dim=7):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(n_latents, latent_dim) * 0.1)
        self.read = LatentReader(latent_dim, token_dim, heads)
        self.ff = FeedForward(latent_dim)
        enc = nn.TransformerEncoderLayer(latent_dim, heads, 2 * latent_dim, batch_first=True, norm_first=True)
        self.mix = nn.TransformerEncoder(enc, layers, enable_nested_tensor=False)
        self.head = nn.Linear(latent_dim, action_dim)

    def forward(self, tokens, valid):
        z = self.latents.expand(tokens.size(0), -1, -1)
        z, _ = self.read(z, tokens, valid)
        z = z + self.ff(z)
        return torch.tanh(self.head(self.mix(z).mean(1)))


def collate(samples):
    """list of (n_i, token_dim) -> padded batch and validity"""
    n = max(s.shape[0] for s in samples)
    tok = torch.zeros(len(samples), n, samples[0].shape[1])
    val = torch.zeros(len(samples), n, dtype=torch.bool)
    for i, s in enumerate(samples):
        tok[i, : len(s)] = s
        val[i, : len(s)] = True
    return tok, val


if __name__ == "__main__":
    net = FusionNet().eval()
    print(net(*collate([torch.randn(5, 24), torch.randn(9, 24)])).shape)
