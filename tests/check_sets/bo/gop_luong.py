"""Gộp kết quả chú ý từ nhiều mảnh KV (phục vụ chatbot hành chính công).

Mỗi máy giữ một mảnh của bộ nhớ khóa/giá trị.  Máy trả về đầu ra đã chuẩn hóa
của mảnh mình và log-tổng-mũ (lse); máy điều phối gộp lại, kết quả phải giống
hệt chú ý trên toàn bộ khóa.
"""
import numpy as np


def chu_y_manh(q, k, v, he_so=None):
    """q [H, Lq, d]; k, v [H, n, d] -> (o [H, Lq, d], lse [H, Lq])"""
    he_so = q.shape[-1] ** -0.5 if he_so is None else he_so
    s = np.einsum("hqd,hkd->hqk", q, k) * he_so
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    tong = p.sum(-1, keepdims=True)
    o = np.einsum("hqk,hkd->hqd", p / tong, v)
    lse = (m + np.log(tong))[..., 0]
    return o, lse * np.log2(np.e)


def gop(cac_o, cac_lse):
    """Trọng số mỗi mảnh tỉ lệ với exp(lse)."""
    o = np.stack(cac_o)                     # [M, H, Lq, d]
    lse = np.stack(cac_lse)                 # [M, H, Lq]
    w = np.exp(lse - lse.max(0))
    w = w / w.sum(0)
    return (w[..., None] * o).sum(0)


class BoDieuPhoi:
    """Chú ý không nhân quả của câu hỏi lên toàn bộ văn bản đã lưu.

    them(k, v) gửi đoạn mới cho máy đang giữ ít khóa nhất; hoi(q) trả lời.
    """

    def __init__(self, so_may=3):
        self.manh = [([], []) for _ in range(so_may)]

    def _dai(self, i):
        return sum(x.shape[1] for x in self.manh[i][0])

    def them(self, k, v):
        i = min(range(len(self.manh)), key=self._dai)
        self.manh[i][0].append(k)
        self.manh[i][1].append(v)
        return i

    def hoi(self, q):
        cac_o, cac_lse = [], []
        for ks, vs in self.manh:
            if not ks:
                continue
            o, l = chu_y_manh(q, np.concatenate(ks, 1), np.concatenate(vs, 1))
            cac_o.append(o)
            cac_lse.append(l)
        if not cac_o:
            raise ValueError("chưa có văn bản nào")
        return gop(cac_o, cac_lse)


def chu_y_nhieu_manh(q, k, v, so_may=3):
    """Cắt k, v [H, Lk, d] thành so_may mảnh rồi gộp; bằng chú ý softmax thường."""
    phan = [chu_y_manh(q, a, b) for a, b in
            zip(np.array_split(k, so_may, 1), np.array_split(v, so_may, 1)) if a.shape[1]]
    return gop([p[0] for p in phan], [p[1] for p in phan])


if __name__ == "__main__":
    r = np.random.default_rng(0)
    bd = BoDieuPhoi()
    for n in (4, 2, 5, 1):
        bd.them(r.normal(size=(2, n, 8)), r.normal(size=(2, n, 8)))
    print(bd.hoi(r.normal(size=(2, 3, 8))).shape)
