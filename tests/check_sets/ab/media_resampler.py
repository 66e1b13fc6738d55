import torch
from torch import nn, einsum


def exists(val):
    return val is not None


def FeedForward(dim, mult=4):
    inner = int(dim * mult)
    return nn.Sequential(
        nn.LayerNorm(dim),
        nn.Linear(dim, inner, bias=False),
        nn.GELU(),
        nn.Linear(inner, dim, bias=False)
    )


class PerceiverAttention(nn.Module):
    def __init__(self, *, dim, dim_head=16, heads=4):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        inner_dim = dim_head * heads
        self.norm_media = nn.LayerNorm(dim)
        self.norm_latents = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x, latents, mask=None):
        """
        x       (b, t, n1, d)  media features
        latents (b, t, n2, d)
        mask    (b, t, n1)     True = feature present
        """
        x = self.norm_media(x)
        latents = self.norm_latents(latents)
        b, t, n2, _ = latents.shape
        h = self.heads

        q = self.to_q(latents)
        # the latents are appended to the media, as in the paper
        kv_input = torch.cat((x, latents), dim=-2)
        k, v = self.to_kv(kv_input).chunk(2, dim=-1)

        def split(t_):
            return t_.reshape(*t_.shape[:-1], h, -1).permute(0, 3, 1, 2, 4)   # b h t n d

        q, k, v = map(split, (q, k, v))
        q = q * self.scale
        sim = einsum('... i d, ... j d -> ... i j', q, k)

        if exists(mask):
            keep = nn.functional.pad(mask, (0, n2), value=True)
            sim = sim.masked_fill(~keep[:, None, :, None, :], -torch.finfo(sim.dtype).max)

        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        attn = sim.softmax(dim=-1)
        out = einsum('... i j, ... j d -> ... i d', attn, v)
        out = out.permute(0, 2, 3, 1, 4).reshape(b, t, n2, -1)
        return self.to_out(out)


class Resampler(nn.Module):
    def __init__(self, *, dim, depth=2, dim_head=16, heads=4, num_latents=8, num_media_embeds=4):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, dim))
        self.media_pos_emb = nn.Parameter(torch.randn(num_media_embeds, 1, dim))
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PerceiverAttention(dim=dim, dim_head=dim_head, heads=heads), FeedForward(dim=dim)]))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, mask=None):
        x = x + self.media_pos_emb[:x.shape[1]]
        latents = self.latents.expand(*x.shape[:2], -1, -1)
        for attn, ff in self.layers:
            latents = attn(x, latents, mask) + latents
            latents = ff(latents) + latents
        return self.norm(latents)
