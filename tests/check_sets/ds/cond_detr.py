"""Cross attention of a Conditional-DETR style decoder."""
import torch
import torch.nn.functional as F
from torch import nn


class ConditionalCross(nn.Module):
    """Object queries read the image; content and position are matched separately.

    obj       (B, Q, C)   decoder state of the object queries
    obj_pos   (B, Q, C)   sine embedding of the reference points
    img       (B, HW, C)  encoder output, pixels row by row
    img_pos   (B, HW, C)  sine embedding of the pixels
    pad       (B, HW) bool, True on pixels outside the real picture; every
              picture has real pixels
    returns   (B, Q, C)

    In head h the query is [content_h ; position_h] (width 2d, d = C / heads) and so
    is the key, so the score is the sum of a content and a position dot product,
    divided by sqrt(2d).  Values carry content only.
    """

    def __init__(self, c=256, heads=8, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qc, self.qp = nn.Linear(c, c), nn.Linear(c, c)
        self.kc, self.kp = nn.Linear(c, c), nn.Linear(c, c)
        self.vc, self.out = nn.Linear(c, c), nn.Linear(c, c)

    def fold(self, x):
        b, n, c = x.shape
        return x.view(b, n, self.heads, c // self.heads)

    def forward(self, obj, obj_pos, img, img_pos, pad):
        q = torch.cat([self.fold(self.qc(obj)), self.fold(self.qp(obj_pos))], dim=3).transpose(1, 2)
        k = torch.cat([self.fold(self.kc(img)), self.fold(self.kp(img_pos))], dim=3).transpose(1, 2)
        v = self.fold(self.vc(img)).transpose(1, 2)
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=~pad[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.out(y.transpose(1, 2).flatten(2))
