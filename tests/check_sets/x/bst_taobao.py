import torch
import torch.nn as nn

# Behavior Sequence Transformer for CTR (Alibaba, 2019), single category of item features


class BST(nn.Module):
    def __init__(self, n_items=200, n_users=100, embed_dim=16, max_len=10, n_heads=2, n_layers=1, dropout=0.2):
        super().__init__()
        self.embed_dim = embed_dim
        self.item_embed = nn.Embedding(n_items, embed_dim)
        self.user_embed = nn.Embedding(n_users, embed_dim)
        self.pos_embed = nn.Embedding(max_len + 1, embed_dim)
        layer = nn.TransformerEncoderLayer(d_model=embed_dim, nhead=n_heads, dim_feedforward=4 * embed_dim,
                                           dropout=dropout, activation="relu")
        self.transformer = nn.TransformerEncoder(layer, num_layers=n_layers, enable_nested_tensor=False)
        width = (max_len + 1) * embed_dim + embed_dim
        self.mlp = nn.Sequential(
            nn.Linear(width, 64), nn.LeakyReLU(), nn.Dropout(dropout),
            nn.Linear(64, 32), nn.LeakyReLU(),
            nn.Linear(32, 1))

    def forward(self, user, hist, target):
        """
        user   [batch]            user ids
        hist   [batch, max_len]   ids of the last clicked items
        target [batch]            candidate item
        """
        seq = torch.cat([hist, target.unsqueeze(1)], dim=1)
        pos = torch.arange(seq.size(1), device=seq.device).unsqueeze(0)
        x = self.item_embed(seq) + self.pos_embed(pos)       # [batch, max_len + 1, embed_dim]
        x = self.transformer(x)
        x = torch.cat([x.flatten(1), self.user_embed(user)], dim=1)
        return torch.sigmoid(self.mlp(x)).squeeze(-1)
