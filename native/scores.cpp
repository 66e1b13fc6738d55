// The masked scores of a group of queries, for all passes alike: see score() in tile.h.
// Compiled once per level; see README.md.
#include "blocks.h"

namespace overt::OVERT_LEVEL {
namespace {

#if !defined(OVERT_TILES)
// Products of M queries with `count` keys, both as rows.
template <class Acc, int M>
OVERT_INLINE void multiply_rows(const Acc* queries, const Acc* key, Index row, Index D, int count, Acc* tile) {
  constexpr int lanes = kLanes<Acc>;
  const Index width = round_up(D, lanes), whole = kMasks ? width : D / lanes * lanes;
  for (int s = 0; s < count; s += lanes, key += lanes * row)
    for (int r = 0; r < M; ++r) {
      const Acc* query = queries + r * width;
      Lane<Acc> x[lanes] = {};
      Index d = 0;
      if (s + lanes <= count)
        for (; d < whole; d += lanes) {
          Lane<Acc> factor = load(query + d);
          OVERT_UNROLL
          for (int i = 0; i < lanes; ++i) {
            x[i] += factor * load_some(key + i * row + d, kMasks ? D - d : lanes);
            // These keys will not be read again, and come from memory.
            if (r == 0) __builtin_prefetch(key + (lanes + i) * row + d);
          }
        }
      for (; d < width; d += lanes) {
        OVERT_UNROLL
        for (int i = 0; i < lanes; ++i)
          if (s + i < count) x[i] += load(query + d) * load_some(key + i * row + d, D - d);
      }
      transpose<Acc>(x);
      OVERT_UNROLL
      for (int step = lanes / 2; step; step /= 2) {
        OVERT_UNROLL
        for (int i = 0; i < step; ++i) x[i] += x[i + step];
      }
      store(tile + r * kTileStride + s, x[0]);
    }
}

template <class Acc, int M>
OVERT_INLINE int score_group(const Scoring<Acc>& scoring, const Group<Acc>& group, Keys<Acc> keys, Index D, Range range,
                       Acc* tile) {
  int count = range.end - range.begin, panels = (count + kPanel<Acc> - 1) / kPanel<Acc>;
  // Where no key lies in the second half of the last panel, all of it is masked.
  bool half = panels * kPanel<Acc> - count >= kLanes<Acc>;
  if (!keys.rows) compare<Acc, M>(scoring, group.queries, keys.data, D, panels, tile, kTileStride, half);
  else if constexpr (M <= kThin) {
    multiply_rows<Acc, M>(group.queries, keys.data, keys.step, D, count, tile);
    scale_tile(M, tile, int(round_up(count, kLanes<Acc>)), scoring.late);
  }
  finish_scores(scoring, group, range, panels * kPanel<Acc>, tile);
  return panels * kPanel<Acc>;
}
#endif

}  // namespace

template <class Acc>
int score(const Problem& p, [[maybe_unused]] const Rows& rows, const Scoring<Acc>& scoring, const Group<Acc>& group,
          Keys<Acc> keys, Range range, Acc* tile) {
  int width = 0;
  with_size(group.size, [&]<int M>() {
#if defined(OVERT_TILES)
    width = int(round_up(range.end - range.begin, kPanel<Acc>));
    with_input<Acc>(p.type, [&]<class In>() {
      scale_tile(M, tile, width, score_tiles<In, M>(p, rows, scoring, group, keys, range, tile));
    });
#else
    width = score_group<Acc, M>(scoring, group, keys, p.D, range, tile);
#endif
  });
  return width;
}

#define OVERT_SCORE(Acc)                                                                                            \
  template int score(const Problem&, const Rows&, const Scoring<Acc>&, const Group<Acc>&, Keys<Acc>, Range, Acc*);
OVERT_SCORE(float)
#if !defined(OVERT_TILES)
OVERT_SCORE(double)
#endif

}  // namespace overt::OVERT_LEVEL
