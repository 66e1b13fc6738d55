// Masked scores of a group of queries against a range of keys: what the forward pass and the statistics share.
#pragma once
#include <limits.h>

#include "additive.h"
#if defined(OVERT_TILES)
#include "split.h"
#endif

namespace overt::OVERT_LEVEL {

// Keys are taken in blocks that start at multiples of kBlock, whatever the mask, so that the order of every sum
// depends on the position of a key and on nothing else.
constexpr int kBlock = 512;
// Rows of a tile lie this far apart: a power of two would put them all into the same few sets of the cache.
constexpr int kTileStride = kBlock + 16;

struct Range {
  int begin, end;
  bool empty() const { return begin >= end; }
};
OVERT_INLINE Range intersect(Range a, Range b) { return {larger(a.begin, b.begin), smaller(a.end, b.end)}; }

// Up to kRows queries that are computed together.  Queries that read the same key head may come from several heads.
template <class Acc> struct Group {
  int size;   // rows the kernels compute: count, rounded up to one of the sizes of with_size
  int count;  // rows that exist
  Range any;  // no row sees a key outside
  Range every;  // all rows see all keys inside, as far as the spans say
  Range span[kRows];
  const std::uint8_t* bits[kRows];  // all null or none
  const Acc* bias[kRows];           // all null or none
  Index place[kRows];               // of the row in a (B, H, T) array
  const std::uint8_t* lit;          // panels with a bit set in some row
  const Acc* queries;               // [D][kQueries], scaled; or rows, if the keys are rows; or tiles
  std::uint32_t odd;                // rows that tiles cannot hold
};

// Keys as panels [D][kPanel]; or, where too few queries read them to be worth packing, as rows where they lie.
template <class Acc> struct Keys {
  const Acc* data;
  bool rows;
  Index step;  // from one row to the next
};

// Values as rows; or as slices of kPanel columns.
template <class Acc> struct Values {
  const Acc* data;
  Index step;   // from one key to the next
  Index slice;  // from kPanel columns to the next kPanel

  const Acc* column(Index e) const { return data + e / kPanel<Acc> * slice + e % kPanel<Acc>; }
  bool rows() const { return slice == kPanel<Acc>; }
};

// As many queries of a task, or fewer, do not pay for packing the keys.
constexpr int kThin = 2;

// Calls body.operator()<M>() with a constant M = size.
template <class Body> OVERT_INLINE void with_size(int size, const Body& body) {
  if constexpr (kTiled) return size == 16 ? body.template operator()<16>() : body.template operator()<kRows>();
  switch (size) {
    case 1: return body.template operator()<1>();
    case 2: return body.template operator()<2>();
    case 4: return body.template operator()<4>();
    case 8:
      if constexpr (kRows > 8) return body.template operator()<8>();
      [[fallthrough]];
    default: return body.template operator()<kRows>();
  }
}
OVERT_INLINE int rounded_size(int count) {
  if constexpr (kTiled) return count <= 16 ? 16 : kRows;
  return count <= 2 ? count : count <= 4 ? 4 : count <= 8 && kRows > 8 ? 8 : kRows;
}

template <class T> OVERT_INLINE const T* at(const View& view, Index b, Index h, Index t) {
  return static_cast<const T*>(view.data) + b * view.batch + h * view.head + t * view.row;
}

// How packed queries and keys become a score: constants of a call.
template <class Acc> struct Scoring {
  Acc factor;     // of a product: goes into the queries
  Acc late;       // multiplies the product
  Acc cap;        // 0: none
  const Acc* v;   // of the additive score, or null
  bool bounded, steep;
  Acc base, slope;  // of the additive score
  bool even_bias;

  explicit Scoring(const Problem& p)
      : factor(1), late(1), cap(Acc(p.softcap)), v(static_cast<const Acc*>(p.additive)), bounded(v && p.bounded),
        steep(v && p.steep), even_bias(p.even_bias) {
    const double scale = p.softcap > 0 ? p.scale / p.softcap : p.scale, size = __builtin_fabs(scale);
    double total = 0;
    for (Index d = 0; v && d < p.D; ++d) total += v[d];
    base = Acc(scale * total);
    slope = Acc(steep ? scale : -2 * scale);
    if (v) return;
    // A factor that makes queries no larger and hardly smaller costs nothing there.  Another might make them overflow or
    // vanish where the score itself does not, and one far from 1 also the products.
    double early = size < 0x1p-12 ? __builtin_sqrt(size) : size <= 1 ? scale : size < kWildScale ? 1 : 0x1p32;
    factor = Acc(early);
    // With a tiny softcap it may itself be too large; then any will do that takes all but 0 to the cap.
    const double most = sizeof(Acc) == 4 ? 0x1p127 : 0x1p1000, rest = early == 0 ? 0 : scale / early;
    late = Acc(smaller(larger(rest, -most), most));
  }
};

// The rows of heads [head, head + heads) of batch b, ordered by (t, head): neighbours see similar keys.
struct Rows {
  Index b, head, heads;
};

// Packs the queries of a group, or lays them out as rows.
template <class In, class Acc>
void pack_group(const Problem& p, const In* const* row, bool as_rows, const Scoring<Acc>& scoring, Acc* queries,
                Group<Acc>& group) {
  if (as_rows) {
    Index width = round_up(p.D, kLanes<Acc>);
    for (int r = 0; r < group.count; ++r)
      for (Index d = 0; d < width; d += kLanes<Acc>)
        store(queries + r * width + d, load_some(row[r] + d, p.D - d) * scoring.factor);
    return;
  }
#if defined(OVERT_TILES)
  group.odd = pack_query_tiles<In>(row, group.count, group.size, p.D, scoring.factor, queries);
#else
  pack_queries<In>(row, group.count, p.D, scoring.factor, queries);
  raise(scoring.bounded, queries, p.D * kQueries<Acc>);
#endif
}

// Fills one group with rows [first, first + count).
template <class Acc>
void fill_group(const Problem& p, const Rows& rows, Index first, int count, bool as_rows, const std::uint8_t* lit,
                const Scoring<Acc>& scoring, Acc* queries, Group<Acc>& group) {
  group.size = rounded_size(count);
  group.count = count;
  group.any = {INT_MAX, 0};
  group.every = {0, INT_MAX};
  group.lit = lit;
  group.queries = queries;
  Index row[kRows], t = first / rows.heads, h = rows.head + first % rows.heads;
  for (int r = 0; r < group.size; ++r) {
    if (r >= count) {
      // A row that only fills up the group repeats the last one and sees nothing.
      group.span[r] = {0, 0};
      group.every = {0, 0};
      group.bits[r] = group.bits[r - 1];
      group.bias[r] = group.bias[r - 1];
      continue;
    }
    row[r] = rows.b * p.q.batch + h * p.q.head + t * p.q.row;
    Range span = {0, int(p.S)};
    if (p.first.data) span.begin = larger(0, int(*at<std::int32_t>(p.first, rows.b, h, t)));
    if (p.last.data) span.end = smaller(span.end, int(*at<std::int32_t>(p.last, rows.b, h, t)));
    if (span.empty()) span = {0, 0};
    else group.any = {smaller(group.any.begin, span.begin), larger(group.any.end, span.end)};
    group.span[r] = span;
    group.every = intersect(group.every, span);
    group.bits[r] = p.bits.data ? at<std::uint8_t>(p.bits, rows.b, h, t) : nullptr;
    group.bias[r] = p.bias.data ? at<Acc>(p.bias, rows.b, h, t) : nullptr;
    group.place[r] = (rows.b * p.H + h) * p.T + t;
    if (++h == rows.head + rows.heads) h = rows.head, ++t;
  }
  with_input<Acc>(p.type, [&]<class In>() {
    const In* at[kRows];
    for (int r = 0; r < count; ++r) at[r] = static_cast<const In*>(p.q.data) + row[r];
    pack_group(p, at, as_rows, scoring, queries, group);
  });
}

// Notes the panels in which a row of S bits has one set.
template <class Acc> void note_lit(const std::uint8_t* bits, Index S, std::uint8_t* lit) {
  constexpr int panel = kPanel<Acc>;
  Index s = 0;
  for (; s + panel <= S; s += panel) {
    std::uint8_t found = 0;
    for (int i = 0; i < panel; ++i) found |= bits[s + i];
    lit[s / panel] |= found;
  }
  for (; s < S; ++s) lit[s / panel] |= bits[s];
}

// The keys of a block that the group has to look at.  begin is a multiple of kPanel.
template <class Acc> Range visible(const Group<Acc>& group, Range block) {
  constexpr int panel = kPanel<Acc>;
  Range range = intersect(group.any, block);
  range.begin = range.begin / panel * panel;
  if (!group.lit) return range;
  while (!range.empty() && !group.lit[range.begin / panel]) range.begin += panel;
  while (!range.empty() && !group.lit[(range.end - 1) / panel]) range.end = (range.end - 1) / panel * panel;
  return range;
}

// How a weight is raised from a score: the maximum is subtracted before anything is multiplied, so that no score is too
// large and none loses what distinguishes it from the others.
template <class Acc> struct Raise {
  struct Row {
    static constexpr Acc unit = 1;
    Lane<Acc> highest;
    // The logarithm of the weight, in units of `unit`, and the weight.
    OVERT_INLINE Lane<Acc> less(Lane<Acc> x) const { return x - highest; }
    OVERT_INLINE Lane<Acc> weight(Lane<Acc> x) const { return exp<Acc>(x); }
  };
  // Where that maximum is small, so is what it loses by being multiplied, a factor that all weights of the row share; then
  // both are one instruction.
  struct Fused {
    static constexpr Acc unit = Acc(kLn2);
    Lane<Acc> highest;
    OVERT_INLINE Lane<Acc> less(Lane<Acc> x) const { return x * Acc(kLog2e) - highest; }
    OVERT_INLINE Lane<Acc> weight(Lane<Acc> x) const { return exp2<Acc>(x); }
  };
  Acc score(Acc x) const { return x; }
  // Calls body(row) with what raises the weights of a row of that maximum.
  template <class Body> OVERT_INLINE void for_row(Acc highest, const Body& body) const {
    if (kFuses && larger(highest, -highest) < 16) body(Fused{all(highest * Acc(kLog2e))});
    else body(Row{all(highest)});
  }
};

// Products of M queries with the first W vectors of a panel of keys.
template <class Acc, int M, int W>
OVERT_INLINE void multiply_panel(const Acc* queries, const Acc* keys, Index D, Acc* tile, Index stride) {
  constexpr int lanes = kLanes<Acc>;
  Lane<Acc> sums[M][W];
  OVERT_UNROLL
  for (int r = 0; r < M; ++r)
    for (int c = 0; c < W; ++c) sums[r][c] = Lane<Acc>{};
#pragma GCC unroll 2
  for (Index d = 0; d < D; ++d) {
    Lane<Acc> key[W];
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) key[c] = load(keys + c * lanes);
    OVERT_UNROLL
    for (int r = 0; r < M; ++r) {
      Lane<Acc> factor = all(queries[r]);
      OVERT_UNROLL
      for (int c = 0; c < W; ++c) sums[r][c] += factor * key[c];
    }
    keys += kPanel<Acc>;
    queries += kQueries<Acc>;
  }
  OVERT_UNROLL
  for (int r = 0; r < M; ++r) {
    OVERT_UNROLL
    for (int c = 0; c < W; ++c) store(tile + r * stride + c * lanes, sums[r][c]);
  }
}

// Products of M queries with `panels` consecutive panels of keys, or only the first half of the last of them.
template <class Acc, int M>
OVERT_APART void multiply(const Acc* queries, const Acc* keys, Index D, int panels, Acc* tile, Index stride, bool half) {
  int whole = panels - half;
  for (int p = 0; p < whole; ++p)
    multiply_panel<Acc, M, 2>(queries, keys + p * D * kPanel<Acc>, D, tile + p * kPanel<Acc>, stride);
  if (half) multiply_panel<Acc, M, 1>(queries, keys + whole * D * kPanel<Acc>, D, tile + whole * kPanel<Acc>, stride);
}

// Multiplies some rows of a tile.
template <class Acc> OVERT_APART void scale_tile(int rows, Acc* tile, int width, Acc factor, Index stride = kTileStride) {
  if (factor == 1) return;
  for (int r = 0; r < rows; ++r)
    for (Acc *x = tile + r * stride, *end = x + width; x < end; x += kLanes<Acc>) store(x, load(x) * factor);
}

// Scores of M rows, packed [D][kQueries], with `panels` consecutive panels, in units of the softcap, if any.
template <class Acc, int M>
OVERT_INLINE void compare(const Scoring<Acc>& scoring, const Acc* rows, const Acc* panel, Index D, int panels, Acc* tile,
                          Index stride, bool half) {
  if (!scoring.v) {
    multiply<Acc, M>(rows, panel, D, panels, tile, stride, half);
    scale_tile(M, tile, panels * kPanel<Acc> - half * kLanes<Acc>, scoring.late, stride);
  } else if (scoring.steep)
    add_steep_terms<Acc>(M, rows, panel, scoring.v, D, panels, scoring.slope, tile, stride);
  else if (scoring.bounded)
    add_terms<Acc, M, true>(rows, panel, scoring.v, D, panels, scoring.base, scoring.slope, tile, stride);
  else {
    // At three times the cost of a term, four rows at once are as good as more.
    constexpr int some = M % 4 ? M : 4;
    for (int r = 0; r < M; r += some)
      add_terms<Acc, some, false>(rows + r, panel, scoring.v, D, panels, scoring.base, scoring.slope, tile + r * stride, stride);
  }
}

// Overwrites the cells of `row` that are masked, of keys [begin, begin + width).
template <class Acc> void mask_row(const Group<Acc>& group, int r, int begin, int width, Acc masked, Acc* row) {
  int from = smaller(larger(group.span[r].begin - begin, 0), width);
  int to = smaller(larger(group.span[r].end - begin, from), width);
  for (int i = 0; i < from; ++i) row[i] = masked;
  if (const std::uint8_t* bits = group.bits[r] ? group.bits[r] + begin : nullptr)
    for (int i = from; i < to; ++i) row[i] = bits[i] ? row[i] : masked;
  for (int i = to; i < width; ++i) row[i] = masked;
}

// Overwrites all masked cells of a tile.
template <class Acc> void mask_tile(const Group<Acc>& group, int begin, int width, Acc masked, Acc* tile) {
  if (!group.bits[0] && group.every.begin <= begin && group.every.end >= begin + width) return;
  for (int r = 0; r < group.size; ++r) mask_row(group, r, begin, width, masked, tile + r * kTileStride);
}

// What follows the products: softcap, bias and mask.
template <class Acc>
OVERT_APART void finish_scores(const Scoring<Acc>& scoring, const Group<Acc>& group, Range range, int width, Acc* tile) {
  constexpr int lanes = kLanes<Acc>;
  if (scoring.cap > 0)
    for (int r = 0; r < group.size; ++r)
      for (Acc *x = tile + r * kTileStride, *end = x + width; x < end; x += lanes) store(x, scoring.cap * tanh<Acc>(load(x)));
  if (group.bias[0])
    for (int r = 0; r < group.size; ++r) {
      Range seen = intersect(group.span[r], range);
      const Acc* bias = group.bias[r];
      Acc* x = tile + r * kTileStride;
      if (scoring.even_bias)
        for (int s = seen.begin; s < seen.end; ++s) x[s - range.begin] += bias[0];
      else
        for (int s = seen.begin; s < seen.end; ++s) x[s - range.begin] += bias[s];
    }
  mask_tile(group, range.begin, width, Acc(-kInfinity), tile);
}

// Scores of keys [range.begin, range.end), masked cells −inf, out to the end of the last panel.  Returns the width of
// the tile.  `keys` begin at range.begin.  In scores.cpp, so that no pass compiles it again.
template <class Acc>
int score(const Problem& p, const Rows& rows, const Scoring<Acc>& scoring, const Group<Acc>& group, Keys<Acc> keys,
          Range range, Acc* tile);

}  // namespace overt::OVERT_LEVEL
