import torch
from torch import nn


class GripperQuery(nn.MultiheadAttention):
    """Arm joints look at the objects the camera has found.

    joints   (B, J, width)
    objects  (B, M, width), filled from the front
    found    (B,) number of real objects, may be 0: then the joints keep their input
    """

    def __init__(self, width=16, heads=2, object_width=None):
        super().__init__(width, heads, kdim=object_width, vdim=object_width, batch_first=True)
        self.post = nn.LayerNorm(width)

    def forward(self, joints, objects, found):
        empty = torch.arange(objects.shape[1], device=objects.device) >= found[:, None]
        nothing = found == 0
        # keep one slot open for empty scenes, its contribution is removed below
        blocked = empty & ~(nothing[:, None] & (torch.arange(objects.shape[1], device=objects.device) == 0))
        seen, _ = super().forward(joints, objects, objects, key_padding_mask=blocked, need_weights=False)
        seen = seen.masked_fill(nothing[:, None, None], 0.0)
        return torch.where(nothing[:, None, None], joints, self.post(joints + seen))
