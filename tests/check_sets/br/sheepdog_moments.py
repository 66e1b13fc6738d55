"""Which seconds of a sheepdog trial does a sentence talk about ("the lift", "the shed")?

Clip features and word features are put into one sequence and go through an encoder; a word
must not look at other words' clips from outside its round, so besides padding every sample
brings its own [L, L] table of who may look at whom (built by ``round_table``).

True in a table or a padding vector always means "hide".
"""
import torch
from torch import nn


def round_table(rounds, lengths=None):
    """rounds [B, L] integer round number of each position, -1 = visible from all rounds.

    -> hide [B, L, L]; row looks at column.  The diagonal is never hidden.
    """
    a, b = rounds[:, :, None], rounds[:, None, :]
    hide = (a != b) & (a >= 0) & (b >= 0)
    if lengths is not None:
        idx = torch.arange(rounds.shape[1], device=rounds.device)
        hide = hide | (idx[None, None, :] >= lengths[:, None, None])
    eye = torch.eye(rounds.shape[1], dtype=torch.bool, device=rounds.device)
    return hide & ~eye


class MomentEncoderLayer(nn.Module):
    def __init__(self, d_model=64, nhead=4, dim_feedforward=128, dropout=0.1):
        super().__init__()
        self.nhead = nhead
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.act = nn.PReLU()

    def with_pos(self, x, pos):
        return x if pos is None else x + pos

    def forward(self, src, hide=None, pos=None):
        """src [B, L, d_model], hide [B, L, L] bool, pos [B, L, d_model]"""
        q = k = self.with_pos(src, pos)
        mask = None
        if hide is not None:
            mask = hide.repeat(self.nhead, 1, 1)            # [B * nhead, L, L]
        y = self.self_attn(q, k, value=src, attn_mask=mask, need_weights=False)[0]
        src = self.norm1(src + self.dropout(y))
        y = self.linear2(self.dropout(self.act(self.linear1(src))))
        return self.norm2(src + self.dropout(y))


class MomentFinder(nn.Module):
    """-> per clip: saliency, (centre offset, width) of the moment."""

    def __init__(self, clip_dim=128, word_dim=96, d_model=64, depth=2):
        super().__init__()
        self.clip = nn.Sequential(nn.LayerNorm(clip_dim), nn.Linear(clip_dim, d_model))
        self.word = nn.Sequential(nn.LayerNorm(word_dim), nn.Linear(word_dim, d_model))
        self.kind = nn.Embedding(2, d_model)
        self.layers = nn.ModuleList(MomentEncoderLayer(d_model) for _ in range(depth))
        self.saliency = nn.Linear(d_model, 1)
        self.span = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 2))

    @staticmethod
    def clock(n, d, device):
        t = torch.arange(n, device=device).float()[:, None]
        f = 10000 ** (-torch.arange(0, d, 2, device=device).float() / d)
        return torch.stack([(t * f).sin(), (t * f).cos()], -1).flatten(1)

    def forward(self, clips, clip_rounds, words):
        B, n, _ = clips.shape
        x = torch.cat([self.clip(clips) + self.kind.weight[0], self.word(words) + self.kind.weight[1]], 1)
        m = words.shape[1]
        rounds = torch.cat([clip_rounds, clip_rounds.new_full((B, m), -1)], 1)
        hide = round_table(rounds)
        pos = torch.cat([self.clock(n, x.shape[-1], x.device), x.new_zeros(m, x.shape[-1])])
        pos = pos.expand(B, -1, -1)
        for l in self.layers:
            x = l(x, hide, pos)
        x = x[:, :n]
        return self.saliency(x).squeeze(-1), self.span(x).sigmoid()


if __name__ == "__main__":
    net = MomentFinder().eval()
    r = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 1, 1], [0, 0, 0, 0, 1]])
    sal, span = net(torch.randn(3, 5, 128), r, torch.randn(3, 4, 96))
    print(sal.shape, span.shape)
