"""Session encoder of the shop recommender.

Every session is cut or repeated to exactly `session_len` clicks beforehand, hence no
padding mask.  The clicks of a session look at each other in both directions, the
last click then gives the user vector.
"""
import torch
import torch.nn as nn


class SessionEncoder(nn.Module):
    """
    Parameters
    ----------
    n_items, dim, n_heads, n_layers: sizes
    session_len: clicks per session

    Input : item ids  [batch, session_len]
    Output: user vector [batch, dim]; sessions are independent of each other
    """

    def __init__(self, n_items=500, dim=32, n_heads=4, n_layers=2, session_len=12, dropout=0.2):
        super().__init__()
        self.items = nn.Embedding(n_items, dim)
        self.place = nn.Parameter(torch.randn(session_len, dim) * 0.02)
        self.attn = nn.ModuleList(
            nn.MultiheadAttention(dim, n_heads, dropout=dropout) for _ in range(n_layers)
        )
        self.ln1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_layers))
        self.ln2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_layers))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Dropout(dropout), nn.Linear(2 * dim, dim))
            for _ in range(n_layers)
        )

    def forward(self, clicks):
        x = self.items(clicks) + self.place[: clicks.shape[1]]      # [batch, session_len, dim]
        for attn, ln1, ln2, ffn in zip(self.attn, self.ln1, self.ln2, self.ffn):
            y = ln1(x)
            y, _ = attn(y, y, y, need_weights=False)
            x = x + y
            x = x + ffn(ln2(x))
        return x[:, -1]

    def scores(self, clicks):
        """Logits over all items for the next click."""
        return self.forward(clicks) @ self.items.weight.T


if __name__ == "__main__":
    model = SessionEncoder().eval()
    ids = torch.randint(0, 500, (8, 12))
    print(model(ids).shape, model.scores(ids).shape)
