// What each key receives and how spread out each query's attention is, in one pass over the weights, from which single ones
// can be picked as well, and whole rows compared with what somebody else made of them.
// Compiled once per level; see README.md.
#include "parts.h"
#include "weigh.h"

namespace overt::OVERT_LEVEL {
namespace {

template <class Acc> OVERT_INLINE void store_some(Acc* to, Lane<Acc> x, Index count) {
  __builtin_memcpy(to, &x, smaller<Index>(count, kLanes<Acc>) * sizeof(Acc));
}

template <class Acc> struct Statistics {
  static constexpr int lanes = kLanes<Acc>;
  static constexpr bool has_ending = true;

  struct Arguments {
    LogSum lse;
    Acc* received;
    Acc* entropy;
    const Picks* picks;  // null: none
  };
  using Layout = PassLayout<Acc, Arguments>;

  struct Shared {
    Parts received;
    void place(Arena& arena, const Layout& layout) {
      if (layout.arguments.received) received.place(arena, layout.plan);
    }
  };
  struct Workspace {
    Desk<Acc> desk;
    Acc* spread = nullptr;    // [groups][kRows][lanes] Σ p log₂ p
    Acc* received = nullptr;  // [kBlock] of the rows of one block
    int* keys = nullptr;      // [groups][picked keys][kRows] as the task's rows want them
    int* others = nullptr;    // [groups][picked keys][kRows] the next one in the same block, or −1
    int* chains = nullptr;    // [groups][blocks] where that of a block begins, or −1
    int* rows = nullptr;      // [groups][kRows] at which place a row is picked whole, or −1
    Acc* mixed = nullptr;     // [picked rows][E] weights times values, out to whole vectors
    void place(Arena& arena, const Layout& layout) {
      desk.place(arena, layout.plan);
      if (const Picks* picks = layout.arguments.picks) {
        for (int** piece : {&keys, &others}) arena.take(*piece, layout.plan.groups * picks->keys * kRows);
        arena.take(chains, layout.plan.groups * ceil_div(layout.plan.p.S, kBlock));
        arena.take(rows, layout.plan.groups * kRows);
        arena.take(mixed, picks->rows * layout.plan.width);
      }
      arena.take(spread, layout.plan.groups * kRows * lanes);
      arena.take(received, kBlock);
    }
  };

  const Problem& p;
  const Plan<Acc>& plan;
  const Arguments& arguments;
  const Source<Acc>& source;
  const Shared& shared;
  const Scoring<Acc> scoring;
  Workspace work;

  template <bool fused>
  OVERT_APART void add(int rows, const Acc* tile, int width, const Shift<Acc>& shift, Acc* received, Acc* spread) {
    // log₂ 0 = −inf would turn 0 · log₂ 0 into NaN; any finite number will do.
    const Lane<Acc> floor = all(2 * Exponent<Acc>::lowest);
    for (int i = 0; i < width; i += 2 * lanes) {
      Lane<Acc> left = load(received + i), right = load(received + i + lanes);
      for (int r = 0; r < rows; ++r) {
        Lane<Acc> x = shift.template log2_weights<fused>(load(tile + r * kTileStride + i), r);
        Lane<Acc> y = shift.template log2_weights<fused>(load(tile + r * kTileStride + i + lanes), r);
        Lane<Acc> p = exp2<Acc>(x), q = exp2<Acc>(y);
        left += p;
        right += q;
        store(spread + r * lanes, load(spread + r * lanes) + p * maximum(floor, x) + q * maximum(floor, y));
      }
      store(received + i, left);
      store(received + i + lanes, right);
    }
  }

  // Notes what the rows of a task pick.  A key that is never met is hidden and has a score of −inf; there is none to pick
  // where it is negative.
  void note_picks(const Picks& picks) {
    const Index blocks = ceil_div(p.S, kBlock), size = picks.keys * kRows;
    __builtin_memset(work.chains, 0xff, work.desk.count * blocks * sizeof(int));
    for (int i = 0; i < work.desk.count; ++i) {
      // The rows of one head, one after another.
      const Index count = work.desk.groups[i].count, place = work.desk.groups[i].place[0], t = place % p.T;
      for (Index c = 0; c < picks.keys; ++c) {
        const auto* wanted = at<std::int32_t>(picks.key, c, place / p.T / p.H, t);
        Acc* scores = found(c) + place;
        for (Index r = 0; r < count; ++r) {
          const int key = wanted[r * picks.key.row], one = int(c * kRows + r);
          scores[r] = key < 0 ? Acc(__builtin_nanf("")) : Acc(-kInfinity);
          if (key < 0 || key >= p.S) continue;
          int& chain = work.chains[i * blocks + key / kBlock];
          work.keys[i * size + one] = key, work.others[i * size + one] = chain, chain = one;
        }
      }
      int* rows = work.rows + i * kRows;
      for (Index r = 0; r < count; ++r) rows[r] = -1;
      for (Index n = 0; n < picks.rows; ++n)
        if (Index r = picks.row[n] - t; r >= 0 && r < count) {
          rows[r] = int(n);
          __builtin_memset(work.mixed + n * plan.width, 0, plan.width * sizeof(Acc));
        }
    }
  }

  Acc* found(Index c) const { return static_cast<Acc*>(arguments.picks->found) + c * p.B * p.H * p.T; }

  // Picks from a tile: scores of single keys, which become weights at the end, and values by the weights of whole rows.
  void pick(const Picks& picks, int i, const Shift<Acc>& shift, Range range) {
    const Group<Acc>& group = work.desk.groups[i];
    const Index size = picks.keys * kRows, chain = i * ceil_div(p.S, kBlock) + range.begin / kBlock;
    for (int one = work.chains[chain]; one >= 0; one = work.others[i * size + one])
      if (int s = work.keys[i * size + one], r = one % kRows; s >= range.begin && s < range.end)
        found(one / kRows)[group.place[r]] = work.desk.tile[r * kTileStride + s - range.begin];
    for (int r = 0; r < group.count; ++r) {
      int n = work.rows[i * kRows + r];
      if (n < 0) continue;
      alignas(64) Acc weights[kBlock];
      for (int s = 0; s < range.end - range.begin; s += lanes) {
        Lane<Acc> x = load(work.desk.tile + r * kTileStride + s);
        shift.choose([&]<bool fused>() { store(weights + s, exp2<Acc>(shift.template log2_weights<fused>(x, r))); });
      }
      mix(weights, range, group.place[r], work.mixed + n * plan.width);
    }
  }

  // Adds the values of some keys times their weights, the sum of them from 0: short chains round less.
  void mix(const Acc* weights, Range range, Index place, Acc* mixed) {
    const Index b = place / p.T / p.H, g = place / p.T % p.H / (p.H / p.G);
    constexpr int some = 4;
    with_input<Acc>(p.type, [&]<class In>() {
      for (Index e = 0; e < p.E; e += some * lanes) {
        Lane<Acc> totals[some] = {};
        for (int s = range.begin; s < range.end; ++s) {
          // What nobody sees may be anything.
          const Acc weight = weights[s - range.begin];
          if (weight == 0) continue;
          const In* value = at<In>(p.v, b, g, s);
          OVERT_UNROLL
          for (int c = 0; c < some; ++c)
            if (Index from = e + c * lanes; from < p.E) totals[c] += load_some(value + from, p.E - from) * weight;
        }
        OVERT_UNROLL
        for (int c = 0; c < some; ++c)
          if (Acc* to = mixed + e + c * lanes; e + c * lanes < p.E) store(to, load(to) + totals[c]);
      }
    });
  }

  // How far a row's values are from the output that is there, and the largest of them; NaN stays.
  void compare(const Picks& picks, Index place, Index n) {
    const Index head = place / p.T;
    Acc off = 0, most = 0;
    with_input<Acc>(p.type, [&]<class In>() {
      const In* output = at<In>(picks.output, head / p.H, head % p.H, place % p.T);
      for (Index e = 0; e < p.E; ++e) {
        Acc mixed = work.mixed[n * plan.width + e], less = mixed - load_some(output + e, 1)[0];
        less = less < 0 ? -less : less, mixed = mixed < 0 ? -mixed : mixed;
        if (off == off && !(less <= off)) off = less;
        if (most == most && !(mixed <= most)) most = mixed;
      }
    });
    const bool blind = static_cast<const Acc*>(arguments.lse.value)[place] == Acc(-kInfinity);
    Acc* to = static_cast<Acc*>(picks.off) + (head * picks.rows + n) * 2;
    to[0] = blind ? Acc(0) : off, to[1] = blind ? Acc(0) : most;
  }

  void task(Index part) {
    Columns received = shared.received.columns(part, p.S);
    if (arguments.received) received.start();
    __builtin_memset(work.received, 0, kBlock * sizeof(Acc));
    each_task(plan, part, [&](Index index) { rows(index, received); });
  }

  void rows(Index index, const Columns& received) {
    Desk<Acc>& desk = work.desk;
    desk.start(plan, source, index, scoring);
    if (arguments.picks) note_picks(*arguments.picks);
    __builtin_memset(work.spread, 0, desk.count * kRows * lanes * sizeof(Acc));
    desk.each_block(plan, source, [&](Range block, const Chunk<Acc>& chunk) {
      for (int i = 0; i < desk.count; ++i) {
        const Group<Acc>& group = desk.groups[i];
        Range range = visible(group, block);
        if (range.empty()) continue;
        Shift<Acc> shift(group, arguments.lse);
        int width = score_for_weights(desk, plan, scoring, group, shift, chunk, range);
        if (arguments.picks) pick(*arguments.picks, i, shift, range);
        shift.choose([&]<bool fused>() {
          add<fused>(group.size, desk.tile, width, shift, work.received + (range.begin - block.begin),
                     work.spread + i * kRows * lanes);
        });
      }
      if (arguments.received) received.add(block, work.received);
    });
    if (arguments.entropy)
      for (int i = 0; i < desk.count; ++i)
        for (int r = 0; r < desk.groups[i].count; ++r)
          arguments.entropy[desk.groups[i].place[r]] =
              entropy_of<Acc>(-sum<Acc>(load(work.spread + (i * kRows + r) * lanes)) * Acc(kLn2));
    if (const Picks* picks = arguments.picks)
      for (int i = 0; i < desk.count; ++i)
        for (int r = 0; r < desk.groups[i].count; ++r)
          if (int n = work.rows[i * kRows + r]; n >= 0) compare(*picks, desk.groups[i].place[r], n);
  }

  Index endings() const { return arguments.received || arguments.picks ? p.B * p.H : 0; }

  void finish(Index head) {
    if (arguments.received) shared.received.join(plan, head, arguments.received);
    if (!arguments.picks) return;
    const Acc *value = static_cast<const Acc*>(arguments.lse.value) + head * p.T;
    const Acc* rest = arguments.lse.rest ? static_cast<const Acc*>(arguments.lse.rest) + head * p.T : nullptr;
    for (Index c = 0; c < arguments.picks->keys; ++c)
      for (Index t = 0; t < p.T; t += lanes) {
        // A row that sees nothing has lse −inf, and −inf − −inf is NaN.
        Acc* scores = found(c) + head * p.T + t;
        Lane<Acc> x = load_some(scores, p.T - t) - load_some(value + t, p.T - t);
        if (rest) x -= load_some(rest + t, p.T - t);
        store_some(scores, exp<Acc>(x), p.T - t);
      }
  }

  static bool run(const Problem& p, const Run& run, const LogSum& lse, void* received, void* entropy, const Picks* picks) {
    Arguments arguments = {lse, static_cast<Acc*>(received), static_cast<Acc*>(entropy), picks};
    Plan<Acc> plan(p, kFairThreads, 1, false);
    return second_pass<Statistics>(plan, run, arguments, all_parts(plan));
  }
};

}  // namespace

bool statistics(const Problem& p, const Run& run, const LogSum& lse, void* received, void* entropy, const Picks* picks) {
  return run_as<Statistics>(p.type, p, run, lse, received, entropy, picks);
}

}  // namespace overt::OVERT_LEVEL
