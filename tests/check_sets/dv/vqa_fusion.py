import torch
import torch.nn as nn


class JointEncoderLayer(nn.Module):
    """One layer over the joint sequence [question tokens ; image boxes].

    q_tok (B, Lq, D), boxes (B, Lb, D)
    q_len (B,)  number of real question tokens (>= 1)
    n_box (B,)  number of real boxes (may be 0)
    Every position reads all real tokens and real boxes; padding tokens and boxes are read by
    nobody. Returns the two parts again: (B, Lq, D), (B, Lb, D). What comes out at padding
    positions is not used later.
    """

    def __init__(self, D=32, heads=4, hidden=64):
        super().__init__()
        self.heads = heads
        self.qkv = nn.ModuleDict({n: nn.Linear(D, D) for n in ("query", "key", "value")})
        self.dense = nn.Linear(D, D)
        self.ln1, self.ln2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, hidden), nn.GELU(), nn.Linear(hidden, D))

    def transpose_for_scores(self, x):
        B, L, D = x.shape
        return x.view(B, L, self.heads, D // self.heads).permute(0, 2, 1, 3)

    def forward(self, q_tok, boxes, q_len, n_box):
        Lq, Lb = q_tok.size(1), boxes.size(1)
        x = torch.cat([q_tok, boxes], dim=1)
        real = torch.cat([torch.arange(Lq, device=x.device)[None] < q_len[:, None],
                          torch.arange(Lb, device=x.device)[None] < n_box[:, None]], dim=1)

        q, k, v = [self.transpose_for_scores(self.qkv[n](x)) for n in ("query", "key", "value")]
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5            # B, heads, L, L
        scores = scores.masked_fill(~real[:, None, :, None], -1e9)
        ctx = scores.softmax(-1) @ v
        ctx = ctx.permute(0, 2, 1, 3).flatten(2)

        x = self.ln1(x + self.dense(ctx))
        x = self.ln2(x + self.mlp(x))
        return x[:, :Lq], x[:, Lq:]
