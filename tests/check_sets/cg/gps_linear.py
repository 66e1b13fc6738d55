"""택시 GPS 궤적 인코더 (선형 어텐션).

궤적이 수천 점까지 길어지므로 softmax 대신 커널 특징 phi(x) = elu(x) + 1 을 쓰는
선형 어텐션을 사용한다 (Katharopoulos et al. 2020, 양방향):

    y_i = phi(q_i)^T sum_j phi(k_j) v_j^T / (phi(q_i)^T sum_j phi(k_j))

스케일 1/sqrt(d) 는 쓰지 않는다. 길이 이후의 점은 패딩이며 합에서 제외된다.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


class LinearTrajectoryBlock(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def attend(self, x, valid):
        b, n, c = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).unbind(dim=2)
        q, k = phi(q), phi(k)
        m = valid[:, :, None, None]
        k = k.masked_fill(~m, 0.0)      # 패딩 키는 분자와 분모 모두에서 빠진다
        v = v.masked_fill(~m, 0.0)
        kv = torch.einsum("bnhd,bnhe->bhde", k, v)
        z = torch.einsum("bnhd,bhd->bnh", q, k.sum(dim=1))
        y = torch.einsum("bnhd,bhde->bnhe", q, kv) / z[..., None]
        return self.to_out(y.reshape(b, n, c))

    def forward(self, x, valid):
        x = x + self.attend(self.ln1(x), valid)
        return x + self.ff(self.ln2(x))


class TrajectoryEncoder(nn.Module):
    """입력: [B, N, 4] (경도, 위도, 속도, 시각), 길이 [B] (1 이상)."""

    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.proj = nn.Linear(4, dim)
        self.blocks = nn.ModuleList([LinearTrajectoryBlock(dim, heads) for _ in range(depth)])

    def forward(self, points, length):
        valid = torch.arange(points.size(1), device=points.device) < length.unsqueeze(1)
        x = self.proj(points)
        for blk in self.blocks:
            x = blk(x, valid)
        x = x.masked_fill(~valid.unsqueeze(-1), 0.0)
        return x.sum(1) / length.unsqueeze(1)
