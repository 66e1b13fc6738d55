// How a call is cut into tasks, and where the packed keys and values of a task come from.
#pragma once
#include "team.h"
#include "tile.h"
#if defined(OVERT_TILES)
#include "products.h"
#endif

namespace overt::OVERT_LEVEL {

// Packed keys and values of the whole call may take this much memory; beyond it every task packs what it reads.
constexpr Index kAheadBytes = 16 << 20;
constexpr int kMostGroups = 24;

// A block of keys takes no more products than this in one task: between two of them one can stop.
constexpr Index kBlockProducts = Index(1) << 29;

// Columns of values are taken two vectors at a time.  With AVX2 that is one line of the cache, and steps from row to row
// fall into few of its sets: values which do not fit into it are worth arranging anew, if enough rows read them.
constexpr bool kSlices = kBytes == 32;
constexpr Index kFirstCache = 32 << 10, kSliceRows = 48;

// A task: one block of rows of one set of heads.  Depends on the number of threads, and no result depends on it.
template <class Acc> struct Plan {
  const Problem& p;
  int threads;
  Index heads;      // query heads whose rows share a task
  Index rows;       // of one set of heads
  int groups;       // of a task, at most
  Index blocks;     // tasks of one set of heads
  Index tasks;
  Index panels;     // of one key head
  Index width;      // of a packed row of values
  Index key_size, value_size;  // elements that a packed key or value takes, kPanel of them together
  Index group_size;  // elements that the packed queries of a group take
  bool pack_values; // or read them where they are
  bool sliced;      // pack them as slices of kPanel columns, each with one key after the other
  Index value_step; // from one packed value to the next
  bool thin;        // read the keys where they are
  bool ahead;       // pack before the tasks start, once
  // Where there are bits, each group of rows of each of these learns first which panels have one set.
  Index lit_batches, lit_sets, all_groups;

  OVERT_APART Plan(const Problem& p, int threads, Index heads, bool values, int most_groups = kMostGroups, bool packed = false)
      : p(p), threads(threads), heads(heads) {
    rows = heads * p.T;
    panels = ceil_div(p.S, kPanel<Acc>);
    width = round_up(p.E, kLanes<Acc>);
    key_size = p.D;
    value_size = width;
    group_size = p.D * kQueries<Acc>;
    bool same_type = p.type == (sizeof(Acc) == 8 ? Type::float64 : Type::float32);
    sliced = kSlices && values && rows >= kSliceRows && p.S * width * Index(sizeof(Acc)) > kFirstCache;
    if (sliced) value_size = round_up(width, kPanel<Acc>);
    pack_values = values && (sliced || !(same_type && width == p.E));
#if defined(OVERT_TILES)
    int terms = OVERT_LEVEL::terms(p.type);
    key_size = packed_keys(terms, p.D);
    value_size = packed_values(terms, p.E);
    group_size = packed_queries(terms, p.D);
    pack_values = values;
#endif
    value_step = sliced ? kPanel<Acc> : value_size;
    Index bytes = p.B * p.G * panels * kPanel<Acc> * (key_size + (pack_values ? value_size : 0)) * Index(sizeof(Acc));
    thin = !packed && !kTiled && same_type && !p.additive && rows <= kThin && p.D >= 4;
    // What has one term is packed faster than it would come back from beyond the second cache.
    ahead = bytes <= kAheadBytes && !thin && !(kTiled && p.type == Type::bfloat16);
    Index sets = p.B * (p.H / heads);
    all_groups = ceil_div(rows, kRows);
    lit_batches = !p.bits.data ? 0 : p.bits.batch ? p.B : 1;
    lit_sets = p.bits.head ? p.H / heads : 1;
    // Packing is worth its time only over many rows.
    Index most = smaller(ahead && !kTiled ? kMostGroups / 2 : kMostGroups, most_groups);
    // The additive score takes some eight products' time for each feature.
    Index products = kRows * kBlock * (p.D * (p.additive ? 8 : 1) + p.E + 8);
    most = larger<Index>(1, smaller(most, kBlockProducts / products));
    while (most > 1 && sets * ceil_div(all_groups, most) < 3 * threads && threads > 1) --most;
    blocks = larger<Index>(1, ceil_div(all_groups, most));
    groups = int(ceil_div(all_groups, blocks));
    tasks = rows ? sets * blocks : 0;
    if (blocks == 1 && heads == p.H / p.G) ahead = false;
  }

  // Steps from one slice to the next, where `keys` values are packed together.
  Index slice(Index keys) const { return sliced ? keys * kPanel<Acc> : kPanel<Acc>; }
};

// Threads that a call deserves: below some ten microseconds of work a second one costs more than it brings.
inline int worthwhile_threads(const Problem& p, const Run& run) {
  double work = double(p.B) * double(p.H) * double(p.T) * double(p.S) * double(p.D + p.E + 8);
  return work < 5e5 ? 1 : run.threads;
}

// Keys and values as the kernels read them, from key `origin` on.
template <class Acc> struct Chunk {
  const Acc* panels;
  Index key_step;
  bool key_rows;
  Values<Acc> values;
  int origin;

  Keys<Acc> keys(int begin) const { return {panels + (begin - origin) * key_step, key_rows, key_step}; }
  Values<Acc> values_from(int begin) const {
    return {values.data + (begin - origin) * values.step, values.step, values.slice};
  }
};

template <class Acc> struct Source {
  Acc* panels = nullptr;  // [B][G][panels][D][kPanel]
  Acc* values = nullptr;  // [B][G][panels · kPanel][value_size], or as slices
  std::uint8_t* lit = nullptr;  // [lit_batches][lit_sets][all_groups][panels]

  OVERT_APART void place(Arena& arena, const Plan<Acc>& plan) {
    const Problem& p = plan.p;
    Index all = p.B * p.G * plan.panels;
    if (plan.ahead) arena.take(panels, all * kPanel<Acc> * plan.key_size);
    if (plan.ahead && plan.pack_values) arena.take(values, all * kPanel<Acc> * plan.value_size);
    arena.take(lit, plan.lit_batches * plan.lit_sets * plan.all_groups * plan.panels);
  }

  // The panels with a bit set for a group of rows.
  std::uint8_t* lit_of(const Plan<Acc>& plan, Index b, Index set, Index group) const {
    if (!plan.lit_batches) return nullptr;
    b = plan.lit_batches > 1 ? b : 0;
    set = plan.lit_sets > 1 ? set : 0;
    return lit + ((b * plan.lit_sets + set) * plan.all_groups + group) * plan.panels;
  }

  void find_lit(const Plan<Acc>& plan, Index index) const {
    Index group = index % plan.all_groups, set = index / plan.all_groups % plan.lit_sets;
    Index b = index / plan.all_groups / plan.lit_sets;
    std::uint8_t* found = lit_of(plan, b, set, group);
    __builtin_memset(found, 0, plan.panels);
    const std::uint8_t* before = nullptr;
    for (Index row = group * kRows; row < smaller((group + 1) * kRows, plan.rows); ++row) {
      const std::uint8_t* bits = at<std::uint8_t>(plan.p.bits, b, set * plan.heads + row % plan.heads, row / plan.heads);
      if (bits != before) note_lit<Acc>(bits, plan.p.S, found);
      before = bits;
    }
  }

  static void pack(const Plan<Acc>& plan, Index b, Index g, Index begin, Index end, Acc* panels, Acc* values, Index slice) {
    if (plan.thin && !values) return;
    with_input<Acc>(plan.p.type, [&]<class In>() { pack_as<In>(plan, b, g, begin, end, panels, values, slice); });
  }

  template <class In>
  static void pack_as(const Plan<Acc>& plan, Index b, Index g, Index begin, Index end, Acc* panels, Acc* values,
                      [[maybe_unused]] Index slice) {
    const Problem& p = plan.p;
    for (Index s = begin; s < end; s += kPanel<Acc>) {
      Index count = smaller<Index>(kPanel<Acc>, p.S - s);
      Index key = (s - begin) * plan.key_size, value = (s - begin) * plan.value_step;
#if defined(OVERT_TILES)
      pack_key_tiles<In>(at<In>(p.k, b, g, s), p.k.row, count, p.D, panels + key);
      if (values) pack_value_tiles<In>(at<In>(p.v, b, g, s), p.v.row, count, p.E, values + value);
#else
      if (!plan.thin) {
        pack_panel<In>(at<In>(p.k, b, g, s), p.k.row, count, p.D, panels + key);
        raise(p.additive && p.bounded, panels + key, p.D * kPanel<Acc>);
      }
      if (values)
        pack_rows<In>(at<In>(p.v, b, g, s), p.v.row, count, p.E, plan.width, plan.value_step, slice, values + value);
#endif
    }
  }

  // Where key s of a head lies, and its value or null, packed ahead.
  Acc* key_at(const Plan<Acc>& plan, Index head, Index s) const {
    return panels + (head * plan.panels * kPanel<Acc> + s) * plan.key_size;
  }
  Acc* value_at(const Plan<Acc>& plan, Index head, Index s) const {
    return values ? values + head * plan.panels * kPanel<Acc> * plan.value_size + s * plan.value_step : nullptr;
  }

  // What all tasks share, worked out by all threads.
  OVERT_APART void prepare(const Plan<Acc>& plan, Queue& queue) const {
    const Problem& p = plan.p;
    constexpr Index some = 8;
    Index pieces = ceil_div(plan.panels, some), last = plan.panels * kPanel<Acc>;
    Index lits = plan.lit_batches * plan.lit_sets * plan.all_groups, packs = plan.ahead ? p.B * p.G * pieces : 0;
    for (Index task; (task = queue.take()) < lits + packs;) {
      if (task < lits) {
        find_lit(plan, task);
        continue;
      }
      task -= lits;
      Index head = task / pieces, begin = task % pieces * some * kPanel<Acc>;
      pack(plan, head / p.G, head % p.G, begin, smaller(begin + some * kPanel<Acc>, last), key_at(plan, head, begin),
           value_at(plan, head, begin), plan.slice(last));
    }
  }

  // Keys of `range`, which lies in one block, packed into `local` unless that was done ahead.
  OVERT_APART Chunk<Acc> chunk(const Plan<Acc>& plan, Index b, Index g, Range range, Acc* local_panels, Acc* local_values) const {
    const Problem& p = plan.p;
    Chunk<Acc> chunk;
    chunk.origin = range.begin / kPanel<Acc> * kPanel<Acc>;
    chunk.key_step = plan.key_size;
    chunk.key_rows = plan.thin;
    Index keys = plan.ahead ? plan.panels * kPanel<Acc> : kBlock, head = b * p.G + g;
    chunk.values = {local_values, plan.value_step, plan.slice(keys)};
    if (plan.ahead) {
      chunk.panels = key_at(plan, head, chunk.origin);
      chunk.values.data = value_at(plan, head, chunk.origin);
    } else {
      pack(plan, b, g, chunk.origin, range.end, local_panels, plan.pack_values ? local_values : nullptr, plan.slice(keys));
      chunk.panels = local_panels;
    }
    if (plan.thin) {
      chunk.panels = at<Acc>(p.k, b, g, chunk.origin);
      chunk.key_step = p.k.row;
    }
    if (!plan.pack_values && p.v.data) chunk.values = {at<Acc>(p.v, b, g, chunk.origin), p.v.row, kPanel<Acc>};
    return chunk;
  }
};

// What a thread needs to score the rows of a task: queries, tile, keys.
template <class Acc> struct Desk {
  Group<Acc>* groups = nullptr;
  Acc* queries = nullptr;
  Acc* tile = nullptr;
  Acc* panels = nullptr;
  Acc* values = nullptr;
  int count = 0;
  Range any = {};
  Rows rows = {};

  OVERT_APART void place(Arena& arena, const Plan<Acc>& plan) {
    arena.take(groups, plan.groups);
    arena.take(queries, plan.groups * plan.group_size);
    arena.take(tile, kRows * kTileStride);
    if (plan.ahead) return;
    if (!plan.thin) arena.take(panels, kBlock * plan.key_size);
    if (plan.pack_values) arena.take(values, kBlock * plan.value_size);
  }

  // Lays out the groups of a task.  Late blocks of rows come first: under a causal mask they are the longest.
  OVERT_APART void start(const Plan<Acc>& plan, const Source<Acc>& source, Index task, const Scoring<Acc>& scoring) {
    Index sets = plan.p.H / plan.heads, set = task / plan.blocks;
    const Index block = plan.blocks - 1 - task % plan.blocks;
    rows = {set / sets, set % sets * plan.heads, plan.heads};
    Index first = block * plan.groups * kRows, last = smaller(plan.rows, first + plan.groups * kRows);
    any = {INT_MAX, 0};
    count = 0;
    for (; first < last; first += kRows, ++count) {
      Group<Acc>& group = groups[count];
      fill_group(plan.p, rows, first, int(smaller<Index>(kRows, last - first)), plan.thin,
                 source.lit_of(plan, rows.b, set % sets, first / kRows), scoring,
                 queries + count * plan.group_size, group);
      any = {smaller(any.begin, group.any.begin), larger(any.end, group.any.end)};
    }
  }

  // Scores of a group with the keys of a range of a chunk, into the tile; returns its width.
  int score(const Plan<Acc>& plan, const Scoring<Acc>& scoring, const Group<Acc>& group, const Chunk<Acc>& chunk,
            Range range) const {
    return OVERT_LEVEL::score(plan.p, rows, scoring, group, chunk.keys(range.begin), range, tile);
  }

  // Calls body(block, chunk) for each block of keys that some row of the task sees.
  template <class Body> OVERT_INLINE void each_block(const Plan<Acc>& plan, const Source<Acc>& source, const Body& body) {
    if (any.empty()) return;
    for (int start = any.begin / kBlock * kBlock; start < any.end; start += kBlock) {
      // Whoever takes a task has asked just now.
      if (start > any.begin && stopped()) return;
      Range block = {start, smaller(start + kBlock, int(plan.p.S))};
      Index g = rows.head / (plan.p.H / plan.p.G);
      body(block, source.chunk(plan, rows.b, g, intersect(block, any), panels, values));
    }
  }
};

// Calls Kernel<Acc>::run.
template <template <class> class Kernel, class... Arguments>
bool run_as([[maybe_unused]] Type type, const Arguments&... arguments) {
#if !defined(OVERT_TILES)
  // Tiles know no float64, and are not asked for it.
  if (type == Type::float64) return Kernel<double>::run(arguments...);
#endif
  return Kernel<float>::run(arguments...);
}

}  // namespace overt::OVERT_LEVEL
