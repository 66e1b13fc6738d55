// Weights themselves: the largest of each row, a pooled picture of all, or every one.
// Compiled once per level; see README.md.
#include "weigh.h"

namespace overt::OVERT_LEVEL {
namespace {

// What the three passes of this file have in common.
template <class Acc, class Arguments_> struct Pass {
  using Arguments = Arguments_;
  using Layout = PassLayout<Acc, Arguments>;
  using Shared = Nothing;
  static constexpr bool has_ending = false;
};

template <class Acc> struct Candidate {
  Acc score;
  int key;
  bool worse(const Candidate& other) const {
    return score < other.score || (score == other.score && key > other.key);
  }
};

// The best few of what was offered: a heap with the worst of them at its root.
template <class Acc> struct Best {
  Candidate<Acc>* heap;
  Index room, count;
  Acc floor;  // `room` scores are known to exceed it

  // Equal scores lose to what is there, for keys come in ascending order.
  Acc threshold() const { return count < room ? floor : larger(floor, heap[0].score); }

  void sink(Candidate<Acc> x, Index size) {
    Index i = 0;
    for (Index child; (child = 2 * i + 1) < size; i = child) {
      if (child + 1 < size && heap[child + 1].worse(heap[child])) ++child;
      if (!heap[child].worse(x)) break;
      heap[i] = heap[child];
    }
    heap[i] = x;
  }
  void offer(Candidate<Acc> x) {
    if (!(x.score > threshold())) return;
    if (count == room) return sink(x, count);
    Index i = count++;
    for (Index parent; i > 0 && x.worse(heap[parent = (i - 1) / 2]); i = parent) heap[i] = heap[parent];
    heap[i] = x;
  }
  // Best first.
  void sort() {
    for (Index size = count; size > 1; --size) {
      Candidate<Acc> worst = heap[0];
      sink(heap[size - 1], size - 1);
      heap[size - 1] = worst;
    }
  }
};

template <class Acc> struct TopArguments {
  LogSum lse;
  Index count;
  std::int64_t* indices;
  Acc* weights;
};

template <class Acc> struct Top : Pass<Acc, TopArguments<Acc>> {
  using typename Pass<Acc, TopArguments<Acc>>::Arguments;
  using typename Pass<Acc, TopArguments<Acc>>::Layout;
  static constexpr int lanes = kLanes<Acc>;

  struct Workspace {
    Desk<Acc> desk;
    Candidate<Acc>* heaps = nullptr;  // [groups][kRows][count]
    Best<Acc>* best = nullptr;        // [groups][kRows]
    bool* taken = nullptr;            // [S]
    void place(Arena& arena, const Layout& layout) {
      const Plan<Acc>& plan = layout.plan;
      desk.place(arena, plan);
      arena.take(heaps, plan.groups * kRows * layout.arguments.count);
      arena.take(best, plan.groups * kRows);
      arena.take(taken, plan.p.S);
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<Acc>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Top(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<Acc>& source, const Nothing&,
      const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  // A number that `room` scores of a row exceed: of the largest in each lane, the largest that so many others exceed.
  static Acc exceeded(const Acc* row, int width, Index room) {
    Acc tops[2 * lanes], found = -kInfinity;
    Lane<Acc> left = all(found), right = left;
    for (int i = 0; i < width; i += 2 * lanes) {
      left = maximum(load(row + i), left);
      right = maximum(load(row + i + lanes), right);
    }
    store(tops, left);
    store(tops + lanes, right);
    OVERT_UNROLL
    for (int i = 0; i < 2 * lanes; ++i) {
      int more = __builtin_popcount(above<Acc>(left, tops[i]) | above<Acc>(right, tops[i]) << lanes);
      if (more >= room) found = larger(found, tops[i]);
    }
    return found;
  }

  // Most cells are too small, and a comparison of whole vectors says so.
  static void choose(const Acc* row, int width, int begin, Best<Acc>& best) {
    // Otherwise a row would begin by offering everything.
    if (best.count < best.room && best.room < 2 * lanes) best.floor = larger(best.floor, exceeded(row, width, best.room));
    for (int i = 0; i < width; i += 2 * lanes) {
      Acc threshold = best.threshold();
      unsigned found = above<Acc>(load(row + i), threshold) | above<Acc>(load(row + i + lanes), threshold) << lanes;
      for (; found; found &= found - 1) {
        int c = i + __builtin_ctz(found);
        best.offer({row[c], begin + c});
      }
    }
  }

  void finish_row(Index place, const Shift<Acc>& shift, int r, Best<Acc>& best) {
    std::int64_t* indices = arguments.indices + place * arguments.count;
    Acc* weights = arguments.weights + place * arguments.count;
    best.sort();
    // One by one: vectors would wait for what was written number by number, a fifth of the time of short rows.
    shift.choose([&]<bool fused>() {
      for (Index i = 0; i < best.count; ++i) {
        indices[i] = best.heap[i].key;
        weights[i] = exp2<Acc>(shift.template log2_weights<fused>(all(best.heap[i].score), r))[0];
      }
    });
    if (best.count == arguments.count) return;
    __builtin_memset(work.taken, 0, p.S);
    for (Index i = 0; i < best.count; ++i) work.taken[best.heap[i].key] = true;
    for (Index i = best.count, s = 0; i < arguments.count; ++s)
      if (!work.taken[s]) indices[i] = s, weights[i] = 0, ++i;
  }

  void task(Index index) {
    Desk<Acc>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    for (Index i = 0; i < desk.count * kRows; ++i)
      work.best[i] = {work.heaps + i * arguments.count, arguments.count, 0, Acc(-kInfinity)};
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        int width = desk.score(plan, scoring, group, chunk, range);
        for (int r = 0; r < group.count; ++r)
          choose(desk.tile + r * kTileStride, width, range.begin, work.best[i * kRows + r]);
      }
    });
    for (int i = 0; i < desk.count; ++i) {
      Shift<Acc> shift(desk.groups[i], arguments.lse);
      for (int r = 0; r < desk.groups[i].count; ++r)
        finish_row(desk.groups[i].place[r], shift, r, work.best[i * kRows + r]);
    }
  }

  static bool run(const Problem& p, const Run& run, const LogSum& lse, Index count, std::int64_t* indices, void* weights) {
    Arguments arguments = {lse, count, indices, static_cast<Acc*>(weights)};
    Plan<Acc> plan(p, worthwhile_threads(p, run), 1, false);
    return second_pass<Top>(plan, run, arguments, plan.tasks);
  }
};

// What a cell of a picture is pooled in: sums in double precision, the largest as it came.
template <class Acc, bool mean> struct Pooled { using Cell = double; };
template <class Acc> struct Pooled<Acc, false> { using Cell = Acc; };

// Joins pooled weights; NaN stays.  Weights have no sign, so they are ordered as their bits are, with NaN above all.
template <bool mean, class Number> OVERT_INLINE Lane<Number> join(Lane<Number> a, Lane<Number> b) {
  using Words = typename Vector<Number>::Words;
  if constexpr (mean) return a + b;
  else return (Lane<Number>)maximum((Words)a, (Words)b);
}

// The bins that reach into [begin, end), by number.  Some in between may not, for bins come in any order.
inline Range reaching(const std::int64_t* bins, Range among, Index begin, Index end) {
  Range found = {among.end, among.begin};
  for (int i = among.begin; i < among.end; ++i)
    if (bins[2 * i] < end && bins[2 * i + 1] > begin) found = {smaller(found.begin, i), i + 1};
  return found;
}

template <class Acc> struct MapArguments {
  LogSum lse;
  const Bins& bins;
  Acc* out;
  Index parts;   // tasks that share the row bins of a head
  Index most;    // row bins of one task
  Index strips;  // row bins that one block of rows reaches into
};

// A block of rows is first pooled over the row bins, in vectors of keys.  What remains, a strip for each row bin, is turned,
// and then the column bins are pooled in vectors of row bins.
template <class Acc> struct Map : Pass<Acc, MapArguments<Acc>> {
  using typename Pass<Acc, MapArguments<Acc>>::Arguments;
  using typename Pass<Acc, MapArguments<Acc>>::Layout;
  static constexpr int lanes = kLanes<Acc>;
  template <bool mean> using Cell = typename Pooled<Acc, mean>::Cell;
  // Of the accumulator's type, as many as a vector of cells has lanes.
  template <class Cell> struct Few {
    typedef Acc Type __attribute__((vector_size(kLanes<Cell> * sizeof(Acc)), aligned(sizeof(Acc)), may_alias));
  };

  struct Workspace {
    Desk<Acc> desk;
    Acc* strips = nullptr;     // [row bins of a block of rows][kTileStride] of a block of keys
    Acc* turned = nullptr;     // [kBlock][lanes]: some strips with keys first
    double* picture = nullptr; // [columns][pitch], of cells
    double* widths = nullptr;  // of the column bins
    void place(Arena& arena, const Layout& layout) {
      const Arguments& arguments = layout.arguments;
      desk.place(arena, layout.plan);
      arena.take(strips, round_up(arguments.strips, lanes) * kTileStride);
      arena.take(turned, kBlock * lanes);
      arena.take(picture, arguments.bins.column_count * pitch(arguments));
      arena.take(widths, round_up(arguments.bins.column_count, lanes));
    }
  };

  // From one column of the picture to the next: room for a last vector of row bins, and no power of two.
  static Index pitch(const Arguments& arguments) { return round_up(arguments.most, 2 * lanes) + lanes; }

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<Acc>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Map(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<Acc>& source, const Nothing&,
      const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  // Joins some rows of the tile and then, so that chains of additions stay short, their strip.
  template <bool mean> OVERT_APART static void pool_rows(const Acc* rows, Index count, int width, Acc* strip) {
    for (int i = 0; i < width; i += 2 * lanes) {
      Lane<Acc> left = load(rows + i), right = load(rows + i + lanes);
      for (Index r = 1; r < count; ++r) {
        left = join<mean, Acc>(left, load(rows + r * kTileStride + i));
        right = join<mean, Acc>(right, load(rows + r * kTileStride + i + lanes));
      }
      store(strip + i, join<mean, Acc>(load(strip + i), left));
      store(strip + i + lanes, join<mean, Acc>(load(strip + i + lanes), right));
    }
  }

  // Turns keys [begin, end) of a vector's worth of strips.
  OVERT_APART void turn(const Acc* strips, int begin, int end) const {
    for (int i = begin; i < end; i += lanes) {
      Lane<Acc> x[lanes];
      OVERT_UNROLL
      for (int j = 0; j < lanes; ++j) x[j] = load(strips + j * kTileStride + i);
      transpose<Acc>(x);
      OVERT_UNROLL
      for (int j = 0; j < lanes; ++j) store(work.turned + (i + j) * lanes, x[j]);
    }
  }

  // Keys [begin, end) of a block, into the cells of one column bin.
  template <bool mean> OVERT_INLINE void pool_keys(int begin, int end, Cell<mean>* cells) const {
    using Cell = Cell<mean>;
    using Few = typename Few<Cell>::Type;
    constexpr int some = kLanes<Cell>, parts = lanes / some;
    Lane<Cell> x[parts];
    OVERT_UNROLL
    for (int j = 0; j < parts; ++j) x[j] = load(cells + j * some);
    for (const Acc *from = work.turned + begin * lanes, *last = work.turned + end * lanes; from < last; from += lanes) {
      OVERT_UNROLL
      for (int j = 0; j < parts; ++j) {
        Few few = *reinterpret_cast<const Few*>(from + j * some);
        x[j] = join<mean, Cell>(x[j], __builtin_convertvector(few, Lane<Cell>));
      }
    }
    OVERT_UNROLL
    for (int j = 0; j < parts; ++j) store(cells + j * some, x[j]);
  }

  // All strips over the bins of `columns`; the first strip is row bin `first` of the task.
  template <bool mean> void pool_columns(Range columns, Range seen, int origin, Index first, Index strips) const {
    const std::int64_t* bins = arguments.bins.columns;
    const Index pitch = this->pitch(arguments);
    for (Index i = 0; i < strips; i += lanes) {
      turn(work.strips + i * kTileStride, (seen.begin - origin) / lanes * lanes, seen.end - origin);
      Cell<mean>* cells = reinterpret_cast<Cell<mean>*>(work.picture) + first + i;
      for (int c = columns.begin; c < columns.end; ++c) {
        int begin = int(larger<Index>(bins[2 * c], seen.begin)), end = int(smaller<Index>(bins[2 * c + 1], seen.end));
        if (begin < end) pool_keys<mean>(begin - origin, end - origin, cells + c * pitch);
      }
    }
  }

  // Clears the picture, or writes it out, with row bins first.
  template <bool mean> void start() const {
    __builtin_memset(work.picture, 0, arguments.bins.column_count * pitch(arguments) * sizeof(Cell<mean>));
  }
  template <bool mean> void finish(Range among, Acc* out) const {
    using Cell = Cell<mean>;
    using Few = typename Few<Cell>::Type;
    constexpr int some = kLanes<Cell>;
    const Bins& bins = arguments.bins;
    const Index columns = bins.column_count, pitch = this->pitch(arguments);
    if (mean)
      for (Index c = 0; c < round_up(columns, some); ++c)
        work.widths[c] = c < columns ? double(bins.columns[2 * c + 1] - bins.columns[2 * c]) : 1;
    for (int i = among.begin; i < among.end; i += some) {
      const Cell* picture = reinterpret_cast<const Cell*>(work.picture) + (i - among.begin);
      for (Index c = 0; c < columns; c += some) {
        const int count = int(smaller<Index>(some, columns - c));
        Lane<Cell> x[some];
        OVERT_UNROLL
        for (int j = 0; j < some; ++j) x[j] = j < count ? load(picture + (c + j) * pitch) : Lane<Cell>{};
        transpose<Cell>(x);
        for (int j = 0; j < smaller(some, among.end - i); ++j) {
          if constexpr (mean) x[j] /= load(work.widths + c) * double(bins.rows[2 * (i + j) + 1] - bins.rows[2 * (i + j)]);
          Few few = __builtin_convertvector(x[j], Few);
          Acc* to = out + (i + j) * columns + c;
          if (count == some) *reinterpret_cast<Few*>(to) = few;
          else __builtin_memcpy(to, &few, count * sizeof(Acc));
        }
      }
    }
  }

  void task(Index index) {
    const Bins& bins = arguments.bins;
    Index head = index / arguments.parts, first = index % arguments.parts * arguments.most;
    Range among = {int(first), int(smaller(bins.row_count, first + arguments.most))};
    if (among.empty()) return;
    if (bins.mean) start<true>();
    else start<false>();
    for (Index block = 0; block < plan.blocks && !stopped(); ++block) rows(head, block, among);
    Acc* out = arguments.out + head * bins.row_count * bins.column_count;
    if (bins.mean) finish<true>(among, out);
    else finish<false>(among, out);
  }

  // One block of rows of a head.
  void rows(Index head, Index block, Range among) {
    const Bins& bins = arguments.bins;
    const Index height = plan.groups * kRows, start = block * height;
    Range bunch = reaching(bins.rows, among, start, start + height);
    if (bunch.empty()) return;
    Desk<Acc>& desk = work.desk;
    // Tasks count from the bottom; see Desk::start.
    desk.start(plan, source, head * plan.blocks + plan.blocks - 1 - block, scoring);
    Range bunches[kMostGroups];
    for (int i = 0; i < desk.count; ++i)
      bunches[i] = reaching(bins.rows, bunch, start + i * kRows, start + (i + 1) * kRows);
    Index strips = round_up(bunch.end - bunch.begin, lanes);
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      Range seen = intersect(desk.any, block);
      Range columns = reaching(bins.columns, {0, int(bins.column_count)}, seen.begin, seen.end);
      if (columns.empty()) return;
      for (Index i = 0; i < strips; ++i) __builtin_memset(work.strips + i * kTileStride, 0, kBlock * sizeof(Acc));
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty() || bunches[i].empty()) continue;
        Shift<Acc> shift(group, arguments.lse);
        int width = score_for_weights(desk, plan, scoring, group, shift, chunk, range);
        weigh(desk.tile, group.size, width, shift);
        for (int bin = bunches[i].begin; bin < bunches[i].end; ++bin) {
          Index begin = larger<Index>(bins.rows[2 * bin] - start - i * kRows, 0);
          Index count = smaller<Index>(bins.rows[2 * bin + 1] - start - i * kRows, group.count) - begin;
          if (count <= 0) continue;
          const Acc* from = desk.tile + begin * kTileStride;
          Acc* strip = work.strips + Index(bin - bunch.begin) * kTileStride + (range.begin - block.begin);
          if (bins.mean) pool_rows<true>(from, count, width, strip);
          else pool_rows<false>(from, count, width, strip);
        }
      }
      if (bins.mean) pool_columns<true>(columns, seen, block.begin, bunch.begin - among.begin, strips);
      else pool_columns<false>(columns, seen, block.begin, bunch.begin - among.begin, strips);
    });
  }

  static bool run(const Problem& p, const Run& run, const LogSum& lse, const Bins& bins, void* out) {
    Plan<Acc> plan(p, 1, 1, false);
    Index parts = smaller(larger<Index>(1, bins.row_count), ceil_div(4 * run.threads, larger<Index>(1, p.B * p.H)));
    if (run.threads == 1) parts = 1;
    Index most = ceil_div(bins.row_count, parts), strips = 0, height = plan.groups * kRows;
    for (Index t = 0; t < p.T; t += height) {
      Range bunch = reaching(bins.rows, {0, int(bins.row_count)}, t, t + height);
      strips = larger<Index>(strips, smaller<Index>(most, bunch.end - bunch.begin));
    }
    Arguments arguments = {lse, bins, static_cast<Acc*>(out), parts, most, strips};
    return second_pass<Map>(plan, run, arguments, p.B * p.H * parts);
  }
};

template <class Acc> struct WeightsArguments {
  LogSum lse;
  Acc* out;
};

template <class Acc> struct Weights : Pass<Acc, WeightsArguments<Acc>> {
  using typename Pass<Acc, WeightsArguments<Acc>>::Arguments;
  using typename Pass<Acc, WeightsArguments<Acc>>::Layout;

  struct Workspace {
    Desk<Acc> desk;
    void place(Arena& arena, const Layout& layout) { desk.place(arena, layout.plan); }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<Acc>& source;
  const Scoring<Acc> scoring;
  Workspace work;

  Weights(const Problem& p, const Plan<Acc>& plan, const Arguments& arguments, const Source<Acc>& source, const Nothing&,
          const Scoring<Acc>& scoring, const Workspace& work)
      : p(p), plan(plan), arguments(arguments), source(source), scoring(scoring), work(work) {}

  void task(Index index) {
    Desk<Acc>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    for (int i = 0; i < desk.count && !stopped(); ++i)
      for (int r = 0; r < desk.groups[i].count; ++r)
        __builtin_memset(arguments.out + desk.groups[i].place[r] * p.S, 0, p.S * sizeof(Acc));
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        Shift<Acc> shift(group, arguments.lse);
        weigh(desk.tile, group.size, score_for_weights(desk, plan, scoring, group, shift, chunk, range), shift);
        for (int r = 0; r < group.count; ++r)
          __builtin_memcpy(arguments.out + group.place[r] * p.S + range.begin, desk.tile + r * kTileStride,
                           (range.end - range.begin) * sizeof(Acc));
      }
    });
  }

  static bool run(const Problem& p, const Run& run, const LogSum& lse, void* out) {
    Arguments arguments = {lse, static_cast<Acc*>(out)};
    Plan<Acc> plan(p, worthwhile_threads(p, run), 1, false);
    return second_pass<Weights>(plan, run, arguments, plan.tasks);
  }
};

}  // namespace

bool top(const Problem& p, const Run& run, const LogSum& lse, Index count, std::int64_t* indices, void* weights) {
  return run_as<Top>(p.type, p, run, lse, count, indices, weights);
}
bool map(const Problem& p, const Run& run, const LogSum& lse, const Bins& bins, void* out) {
  return run_as<Map>(p.type, p, run, lse, bins, out);
}
bool weights(const Problem& p, const Run& run, const LogSum& lse, void* out) {
  return run_as<Weights>(p.type, p, run, lse, out);
}

}  // namespace overt::OVERT_LEVEL
