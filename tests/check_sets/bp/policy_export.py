"""Trains with torch, flies with numpy.

The quadrotor's flight computer has no torch.  `TeamEncoder` is what we train; the weights
go into an .npz file and `NumpyTeamAttention` repeats nn.MultiheadAttention on board.
"""
import numpy as np
import torch
from torch import nn


class TeamEncoder(nn.Module):
    """own [B, D] attends to the other drones team [B, N, D]; lost [B, N] True = no radio contact."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, own, team, lost=None):
        y, _ = self.mha(own[:, None], team, team, key_padding_mask=lost, need_weights=False)
        return self.norm(own + y[:, 0])


def export(module: TeamEncoder) -> dict:
    sd = {k: v.detach().cpu().numpy().astype(np.float64) for k, v in module.state_dict().items()}
    sd["heads"] = np.array(module.mha.num_heads)
    return sd


class NumpyTeamAttention:
    """Same arguments and results as TeamEncoder.forward, numpy arrays in and out.

    If the contact to every drone is lost the attention term is the output bias alone.
    """

    def __init__(self, sd):
        D = sd["mha.out_proj.weight"].shape[0]
        self.h, self.d = int(sd["heads"]), D // int(sd["heads"])
        self.Wq, self.Wk, self.Wv = np.split(sd["mha.in_proj_weight"], 3, axis=0)
        self.bq, self.bk, self.bv = np.split(sd["mha.in_proj_bias"], 3)
        self.Wo, self.bo = sd["mha.out_proj.weight"], sd["mha.out_proj.bias"]
        self.g, self.b = sd["norm.weight"], sd["norm.bias"]

    def _attend(self, own, team, lost):
        B, N, D = team.shape
        q = (own @ self.Wq.T + self.bq).reshape(B, self.h, self.d)
        k = (team @ self.Wk.T + self.bk).reshape(B, N, self.h, self.d)
        v = (team @ self.Wv.T + self.bv).reshape(B, N, self.h, self.d)
        if lost is None:
            lost = np.zeros((B, N), dtype=bool)
        s = np.einsum("bhd,bnhd->bhn", q, k) / np.sqrt(self.d)
        gone = np.broadcast_to(lost[:, None, :], s.shape)
        top = np.max(s, axis=-1, keepdims=True, where=~gone, initial=-1e300)
        e = np.where(gone, 0.0, np.exp(np.where(gone, 0.0, s - top)))
        z = e.sum(-1, keepdims=True)
        p = np.divide(e, z, out=np.zeros_like(e), where=z > 0)
        v = np.where(lost[:, :, None, None], 0.0, v)
        y = np.einsum("bhn,bnhd->bhd", p, v).reshape(B, D)
        return y @ self.Wo.T + self.bo

    def __call__(self, own, team, lost=None):
        x = own + self._attend(own, team, lost)
        mu = x.mean(-1, keepdims=True)
        var = x.var(-1, keepdims=True)
        return (x - mu) / np.sqrt(var + 1e-5) * self.g + self.b


if __name__ == "__main__":
    net = TeamEncoder().double().eval()
    own, team = torch.randn(4, 24).double(), torch.randn(4, 6, 24).double()
    ref = net(own, team).detach().numpy()
    print("max difference", np.abs(ref - NumpyTeamAttention(export(net))(own.numpy(), team.numpy())).max())
