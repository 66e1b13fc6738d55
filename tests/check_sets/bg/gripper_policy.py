"""Behaviour cloning for a two finger gripper: camera tokens + proprioception -> action.

Attention dropout is on during training and off in evaluation (model.train() / .eval()
may alternate; the trainer evaluates after every epoch).
"""
import torch
from torch import nn


class TokenFusion(nn.Module):
    """state [B, S, D] looks at camera tokens [B, N, D]; returns [B, S, D]."""

    def __init__(self, d: int, n_head: int, p: float = 0.1):
        super().__init__()
        self.n_head, self.dk = n_head, d // n_head
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.o = nn.Linear(d, d)
        self.drop = nn.Dropout(p)

    def forward(self, state, cam):
        if not self.training:
            self.drop.p = 0.0  # deterministic at rollout
        B, S, D = state.shape
        N = cam.size(1)
        q = self.q(state).view(B, S, self.n_head, self.dk).permute(0, 2, 1, 3)
        k = self.k(cam).view(B, N, self.n_head, self.dk).permute(0, 2, 3, 1)
        v = self.v(cam).view(B, N, self.n_head, self.dk).permute(0, 2, 1, 3)
        p = torch.softmax(torch.matmul(q, k) * self.dk ** -0.5, dim=-1)
        y = torch.matmul(self.drop(p), v)
        return self.o(y.permute(0, 2, 1, 3).reshape(B, S, D))


class GripperPolicy(nn.Module):
    def __init__(self, joints=7, d=32, n_head=4, p=0.1):
        super().__init__()
        self.pix = nn.Conv2d(3, d, 8, stride=8)
        self.prop = nn.Linear(joints, d)
        self.fuse = TokenFusion(d, n_head, p)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, joints + 1))

    def forward(self, image, joints):
        cam = self.pix(image).flatten(2).transpose(1, 2)
        s = self.prop(joints).unsqueeze(1)
        return self.head(s + self.fuse(s, cam)).squeeze(1)


def fit_epoch(model, batches, opt):
    model.train()
    for image, joints, action in batches:
        loss = nn.functional.smooth_l1_loss(model(image, joints), action)
        opt.zero_grad()
        loss.backward()
        opt.step()


@torch.no_grad()
def validate(model, batches):
    model.eval()
    return sum(nn.functional.l1_loss(model(i, j), a).item() for i, j, a in batches)
