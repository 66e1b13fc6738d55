import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, context_dim=None, heads=4, p=0.1):
        super().__init__()
        context_dim = context_dim or dim
        self.heads, self.p = heads, p
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(context_dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(context).view(b, context.size(1), 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class QFormer(nn.Module):
    """A fixed number of learned queries reads the image features and hands them to the language model.

    image: (batch, patches, image_dim) -> (batch, num_queries, llm_dim)
    """

    def __init__(self, num_queries=6, dim=24, image_dim=20, llm_dim=28, layers=2, heads=4, p=0.1):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, num_queries, dim) * 0.5)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            self.blocks.append(nn.ModuleDict({
                "self": Attention(dim, heads=heads, p=p),
                "cross": Attention(dim, image_dim, heads, p),
                "mlp": nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
                "n1": nn.LayerNorm(dim), "n2": nn.LayerNorm(dim), "n3": nn.LayerNorm(dim),
            }))
        self.out = nn.Linear(dim, llm_dim)

    def forward(self, image):
        x = self.queries.expand(image.size(0), -1, -1)
        for blk in self.blocks:
            x = x + blk["self"](blk["n1"](x))
            x = x + blk["cross"](blk["n2"](x), image)
            x = x + blk["mlp"](blk["n3"](x))
        return self.out(x)
