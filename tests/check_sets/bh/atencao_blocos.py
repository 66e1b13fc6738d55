# Atenção por blocos (estilo FlashAttention) em NumPy puro
# Trabalho da disciplina de Computação de Alto Desempenho - 2º semestre
#
# Ideia: nunca guardar a matriz inteira Lq x Lk. Para cada bloco de chaves
# mantemos, por linha, o máximo m, a soma l e o acumulador o. Quando o máximo
# muda, tudo que já foi acumulado é corrigido por exp(m_velho - m_novo).
import time

import numpy as np

BLOCO_Q = 32
BLOCO_K = 48


def atencao_blocos(q, k, v, causal=False, comprimentos=None, bq=BLOCO_Q, bk=BLOCO_K):
    """q: (B, H, Lq, D); k, v: (B, H, Lk, D).

    causal: a última consulta fica alinhada com a última chave (canto inferior
        direito), como se as primeiras Lk-Lq chaves viessem de um cache.
    comprimentos: (B,) quantas chaves de cada amostra são válidas, ou None.
    Linhas sem nenhuma chave visível devolvem zeros.
    """
    B, H, Lq, D = q.shape
    Lk = k.shape[2]
    escala = 1.0 / np.sqrt(D)
    saida = np.zeros((B, H, Lq, v.shape[-1]), dtype=np.float64)

    for i0 in range(0, Lq, bq):
        qi = q[:, :, i0:i0 + bq].astype(np.float64) * escala
        n = qi.shape[2]
        m = np.full((B, H, n), -np.inf)
        l = np.zeros((B, H, n))
        o = np.zeros((B, H, n, v.shape[-1]))
        for j0 in range(0, Lk, bk):
            kj, vj = k[:, :, j0:j0 + bk], v[:, :, j0:j0 + bk]
            s = qi @ kj.swapaxes(-1, -2)
            cols = np.arange(j0, j0 + kj.shape[2])
            if causal:
                linhas = np.arange(i0, i0 + n) + (Lk - Lq)
                s = np.where(cols[None, :] <= linhas[:, None], s, -np.inf)
            if comprimentos is not None:
                ok = cols[None, :] < np.asarray(comprimentos)[:, None]
                s = np.where(ok[:, None, None, :], s, -np.inf)
            m_novo = np.maximum(m, s.max(-1))
            # linha ainda vazia: usa 0 no lugar de -inf para não gerar nan
            base = np.where(np.isneginf(m_novo), 0.0, m_novo)
            p = np.exp(s - base[..., None])
            corr = np.exp(m - base)
            l = l * corr + p.sum(-1)
            o = o * corr[..., None] + p @ vj
            m = m_novo
        saida[:, :, i0:i0 + n] = o / np.where(l == 0.0, 1.0, l)[..., None]
    return saida.astype(q.dtype)


def bytes_ingenua(B, H, Lq, Lk):
    return B * H * Lq * Lk * 8


def cronometra(f, *a, repeticoes=3, **kw):
    melhor = np.inf
    for _ in range(repeticoes):
        t = time.perf_counter()
        f(*a, **kw)
        melhor = min(melhor, time.perf_counter() - t)
    return melhor


def tabela():
    rng = np.random.default_rng(7)
    print("L    tempo(s)   memória ingênua (MB)")
    for L in (64, 128, 256):
        q, k, v = rng.standard_normal((3, 1, 2, L, 16))
        dt = cronometra(atencao_blocos, q, k, v, causal=True)
        print(f"{L:4d} {dt:9.4f} {bytes_ingenua(1, 2, L, L) / 1e6:9.2f}")


if __name__ == "__main__":
    tabela()
