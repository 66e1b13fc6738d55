# GATv2 图注意力层, 只用边表 (不依赖 PyG)
import torch
import torch.nn as nn
import torch.nn.functional as F


def bian_softmax(fenshu, mubiao, n):
    """对每个目标节点的入边做 softmax; fenshu: [E, H]"""
    idx = mubiao[:, None].expand_as(fenshu)
    zuida = torch.full((n, fenshu.size(1)), float("-inf"), dtype=fenshu.dtype, device=fenshu.device)
    zuida = zuida.scatter_reduce(0, idx, fenshu, reduce="amax", include_self=True)
    fenzi = torch.exp(fenshu - zuida.gather(0, idx))
    fenmu = torch.zeros_like(zuida).scatter_add(0, idx, fenzi)
    return fenzi / fenmu.gather(0, idx)


class TuZhuyili(nn.Module):
    def __init__(self, ru, chu, tou=4, bian_wei=0, pinjie=True, xielv=0.2, diu=0.0):
        super().__init__()
        self.tou, self.chu, self.pinjie, self.xielv = tou, chu, pinjie, xielv
        self.zuo = nn.Linear(ru, tou * chu)      # 源节点
        self.you = nn.Linear(ru, tou * chu)      # 目标节点
        self.bian = nn.Linear(bian_wei, tou * chu, bias=False) if bian_wei else None
        self.a = nn.Parameter(torch.empty(1, tou, chu))
        self.b = nn.Parameter(torch.zeros(tou * chu if pinjie else chu))
        self.diu = nn.Dropout(diu)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, bianbiao, bian_tezheng=None):
        n = x.size(0)
        yuan, mubiao = bianbiao
        # 加自环
        huan = torch.arange(n, device=x.device)
        yuan, mubiao = torch.cat([yuan, huan]), torch.cat([mubiao, huan])

        xl = self.zuo(x).view(n, self.tou, self.chu)
        xr = self.you(x).view(n, self.tou, self.chu)
        m = xl[yuan] + xr[mubiao]
        if self.bian is not None:
            e = torch.cat([bian_tezheng, bian_tezheng.mean(0, keepdim=True).expand(n, -1)])
            m = m + self.bian(e).view(-1, self.tou, self.chu)
        fenshu = (F.leaky_relu(m, self.xielv) * self.a).sum(-1)
        alpha = self.diu(bian_softmax(fenshu, mubiao, n))
        out = x.new_zeros(n, self.tou, self.chu).index_add(0, mubiao, alpha.unsqueeze(-1) * xl[yuan])
        out = out.flatten(1) if self.pinjie else out.mean(1)
        return out + self.b


class FenLei(nn.Module):
    def __init__(self, ru, yin, lei):
        super().__init__()
        self.c1 = TuZhuyili(ru, yin, 4, bian_wei=3)
        self.c2 = TuZhuyili(4 * yin, lei, 2, bian_wei=3, pinjie=False)

    def forward(self, x, bianbiao, bian_tezheng):
        return self.c2(F.elu(self.c1(x, bianbiao, bian_tezheng)), bianbiao, bian_tezheng)


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(7, 10)
    bian = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 0, 2], [1, 2, 0, 4, 5, 3, 0, 4, 6]])
    print(FenLei(10, 8, 3)(x, bian, torch.randn(9, 3)).shape)
