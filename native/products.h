// The two products of a group of queries with a block of keys, on tiles of bfloat16, and what tiles cannot hold.
#pragma once
#include "tile.h"

namespace overt::OVERT_LEVEL {

// Products of M queries with a panel of keys.  A sum that waits for its last product keeps nobody waiting as long as others
// can be added up: four squares are computed in turns.
template <class In, int M> OVERT_INLINE void multiply_tile_panel(const char* query, const char* key, Index chunks, float* tile) {
  constexpr int N = kTerms<In>;
  constexpr bool two = M > kTileRows;
  constexpr Index row = kTileStride * sizeof(float);
  tile_zero<0>(), tile_zero<1>();
  if constexpr (two) tile_zero<2>(), tile_zero<3>();
  for (Index c = 0; c < chunks; ++c) {
    // Terms of keys there and back again: the last one is there already.
    int last = -1;
    OVERT_UNROLL
    for (int j = 0; j < N; ++j) {
      const char* queries = query + (j * (M / kTileRows) * chunks + c) * kTileSize;
      tile_load<4>(queries, kTileBytes);
      if constexpr (two) tile_load<5>(queries + chunks * kTileSize, kTileBytes);
      // Products of float16 are exact: rounding them would move the weights by more than the output is rounded.
      const int count = N == 2 ? 2 : N - j;
      OVERT_UNROLL
      for (int n = 0; n < count; ++n) {
        const int i = j % 2 ? count - 1 - n : n;
        if (i != last) {
          const char* keys = key + (i * chunks + c) * 2 * kTileSize;
          tile_load<6>(keys, kTileBytes), tile_load<7>(keys + kTileSize, kTileBytes);
          last = i;
        }
        tile_dot<0, 4, 6>(), tile_dot<1, 4, 7>();
        if constexpr (two) tile_dot<2, 5, 6>(), tile_dot<3, 5, 7>();
      }
    }
  }
  tile_store<0>(tile, row), tile_store<1>(tile + kTileRows, row);
  if constexpr (two) {
    tile_store<2>(tile + kTileRows * kTileStride, row);
    tile_store<3>(tile + kTileRows * kTileStride + kTileRows, row);
  }
}

// Products of M queries with `panels` consecutive panels of keys.
template <class In, int M> void multiply_tiles(const float* queries, const float* keys, Index D, int panels, float* tile) {
  const Index chunks = ceil_div(D, kDeep), bytes = kPanel<float> * packed_keys(kTerms<In>, D) * Index(sizeof(float));
  const char *query = reinterpret_cast<const char*>(queries), *key = reinterpret_cast<const char*>(keys);
  for (int panel = 0; panel < panels; ++panel, key += bytes, tile += kPanel<float>)
    multiply_tile_panel<In, M>(query, key, chunks, tile);
}

// How a weight is raised from a product of half types that must still be multiplied by a factor.
template <bool coarse> struct RaiseScaled {
  float factor;
  struct Row : Raise<float>::Row {
    float factor;
    OVERT_INLINE Lane<float> less(Lane<float> x) const {
      // One rounding of its own, as the maximum had: fused with the subtraction it would leave the maximum's.
      x *= factor;
      asm("" : "+v"(x));
      return x - highest;
    }
  };
  // That rounding may be left where it is small beside that of the weights, to sixteen bits or, coarsely, to eight.
  struct Fused {
    static constexpr float unit = float(kLn2);
    Lane<float> highest, factor;
    OVERT_INLINE Lane<float> less(Lane<float> x) const { return x * factor - highest; }
    OVERT_INLINE Lane<float> weight(Lane<float> x) const { return coarse ? exp2_coarsely(x) : exp2<float>(x); }
  };
  float score(float x) const { return x * factor; }
  template <class Body> OVERT_INLINE void for_row(float highest, const Body& body) const {
    constexpr float e = float(kLog2e);
    if (__builtin_fabsf(highest) < (coarse ? 512 : 32)) body(Fused{all(highest * e), all(factor * e)});
    else body(Row{{all(highest)}, factor});
  }
};
template <class In> OVERT_INLINE auto raise_from([[maybe_unused]] float factor) {
  if constexpr (kTerms<In> == 3) return Raise<float>();
  else return RaiseScaled<kTerms<In> == 1>{factor};
}

// Weights of row r and keys [i, i + 32) to their place among [term][M / 16][panels] tiles, rows down.
template <class In, int M>
OVERT_INLINE void split_weights(int r, int i, Lane<float> x, Lane<float> y, int panels, char* pieces) {
  constexpr int N = kTerms<In>;
  char* to = pieces + (r / kTileRows * panels + i / kPanel<float>) * kTileSize + r % kTileRows * kTileBytes;
  if constexpr (N == 1) return store_words(to, (Words)_mm512_cvtne2ps_pbh((__m512)y, (__m512)x));
  OVERT_UNROLL
  for (int n = 0; n < N; ++n) {
    Lane<float> first = N == 2 ? leading(x) : truncated(x), second = N == 2 ? leading(y) : truncated(y);
    store_words(to + n * (M / kTileRows) * panels * kTileSize, paired(first, second));
    x -= first, y -= second;
  }
}

// out = shrink · out + weights · values for M rows and C tiles of columns, the block's sum from 0.  Without `shrink` nothing
// has been in `out` yet.
template <class In, int M, int C>
OVERT_INLINE void mix_tile_columns(const char* pieces, const char* values, Index bytes, Index columns, int panels,
                                   const float* shrink, float* out, Index width) {
  constexpr int N = kTerms<In>;
  alignas(64) float block[M][C * kTileRows];
  float* sums = shrink ? block[0] : out;
  const Index step = shrink ? C * kTileRows : width, row = step * Index(sizeof(float));
  tile_zero<0>(), tile_zero<1>(), tile_zero<2>(), tile_zero<3>();
  for (int panel = 0; panel < panels; ++panel, values += bytes) {
    OVERT_UNROLL
    for (int i = 0; i < N; ++i) {
      tile_load<6>(values + i * columns * kTileSize, kTileBytes);
      if constexpr (C > 1) tile_load<7>(values + (i * columns + 1) * kTileSize, kTileBytes);
      OVERT_UNROLL
      for (int j = 0; j < N - i; ++j) {
        const char* piece = pieces + (j * (M / kTileRows) * panels + panel) * kTileSize;
        tile_load<4>(piece, kTileBytes);
        tile_dot<0, 4, 6>();
        if constexpr (C > 1) tile_dot<1, 4, 7>();
        if constexpr (M > kTileRows) {
          tile_load<5>(piece + panels * kTileSize, kTileBytes);
          tile_dot<2, 5, 6>();
          if constexpr (C > 1) tile_dot<3, 5, 7>();
        }
      }
    }
  }
  tile_store<0>(sums, row);
  if constexpr (C > 1) tile_store<1>(sums + kTileRows, row);
  if constexpr (M > kTileRows) {
    tile_store<2>(sums + kTileRows * step, row);
    if constexpr (C > 1) tile_store<3>(sums + kTileRows * step + kTileRows, row);
  }
  if (!shrink) return;
  for (int r = 0; r < M; ++r)
    for (int c = 0; c < C * kTileRows; c += kTileRows) {
      float* to = out + r * width + c;
      store(to, weighty(load(to), all(shrink[r])) * shrink[r] + load(block[r] + c));
    }
}

template <class In, int M>
void mix_tiles(const char* pieces, const float* values, Index size, int panels, const float* shrink, float* out,
               Index width) {
  Index columns = width / kTileRows, bytes = kPanel<float> * size * Index(sizeof(float)), c = 0;
  const char* from = reinterpret_cast<const char*>(values);
  for (; c + 2 <= columns; c += 2)
    mix_tile_columns<In, M, 2>(pieces, from + c * kTileSize, bytes, columns, panels, shrink, out + c * kTileRows, width);
  if (c < columns)
    mix_tile_columns<In, M, 1>(pieces, from + c * kTileSize, bytes, columns, panels, shrink, out + c * kTileRows, width);
}

// Calls body(s) for the keys of a range whose panels, `size` a key, note them as odd.
template <class Body> OVERT_INLINE void each_odd(const float* panels, Index size, Range range, const Body& body) {
  for (int s = range.begin; s < range.end; s += kPanel<float>, panels += kPanel<float> * size)
    for (std::uint32_t odd = odd_keys(panels, size); odd; odd &= odd - 1)
      if (int key = s + __builtin_ctz(odd); key < range.end) body(key);
}

inline bool any_odd(const float* panels, Index size, int count) {
  std::uint32_t odd = 0;
  for (int i = 0; i < count; ++i) odd |= odd_keys(panels + i * kPanel<float> * size, size);
  return odd;
}

// Scores of queries and keys that tiles cannot hold, where they are visible.
template <class In>
void score_odd_rows(const Problem& p, const Rows& rows, const Group<float>& group, Keys<float> keys, Range range,
                    float early, float late, float* tile) {
  auto score = [&](int r, int s) {
    if (s < group.span[r].begin || s >= group.span[r].end || (group.bits[r] && !group.bits[r][s])) return;
    const In* query = at<In>(p.q, rows.b, group.place[r] / p.T % p.H, group.place[r] % p.T);
    const In* key = at<In>(p.k, rows.b, rows.head / (p.H / p.G), s);
    Lane<float> total = {};
    for (Index d = 0; d < p.D; d += kLanes<float>)
      total += load_some(query + d, p.D - d) * early * load_some(key + d, p.D - d);
    tile[r * kTileStride + s - range.begin] = sum<float>(total) * late;
  };
  for (std::uint32_t odd = group.odd; odd; odd &= odd - 1)
    for (int s = range.begin; s < range.end; ++s) score(__builtin_ctz(odd), s);
  each_odd(keys.data, keys.step, range, [&](int s) {
    for (int r = 0; r < group.count; ++r) score(r, s);
  });
}

// What score() of tile.h does, but for a factor, which is returned.
template <class In, int M>
OVERT_INLINE float score_tiles(const Problem& p, const Rows& rows, const Scoring<float>& scoring, const Group<float>& group,
                               Keys<float> keys, Range range, float* tile) {
  int panels = int(ceil_div(range.end - range.begin, kPanel<float>)), width = panels * kPanel<float>;
  multiply_tiles<In, M>(group.queries, keys.data, p.D, panels, tile);
  float factor = scoring.factor * scoring.late;
  // Half types leave it to whoever raises the weights, unless something comes between.
  if (kTerms<In> < 3 && scoring.cap == 0 && !group.bias[0] && factor > 1e-30f && factor < 1e30f) {
    score_odd_rows<In>(p, rows, group, keys, range, 1, 1, tile);
  } else {
    scale_tile(M, tile, width, kTerms<In> < 3 ? factor : scoring.late);
    score_odd_rows<In>(p, rows, group, keys, range, scoring.factor, scoring.late, tile);
    factor = 1;
  }
  finish_scores(scoring, group, range, width, tile);
  return factor;
}

// Adds what tiles cannot hold of the values, times `unit`.
template <class In>
void mix_odd_values(const Problem& p, const Rows& rows, const Group<float>& group, const float* values, Index size,
                    Range range, const float* weights, float unit, float* out, Index width) {
  each_odd(values, size, range, [&](int s) {
    const In* value = at<In>(p.v, rows.b, rows.head / (p.H / p.G), s);
    for (int r = 0; r < group.count; ++r) {
      float weight = weights[r * kTileStride + s - range.begin];
      if (weight == 0) continue;
      for (Index e = 0; e < p.E; e += kLanes<float>) {
        Lane<float> x = load_some(value + e, p.E - e);
        float* to = out + r * width + e;
        store(to, load(to) + (x == tamed(x) ? Lane<float>{} : weight * (x * unit)));
      }
    }
  });
}

}  // namespace overt::OVERT_LEVEL
