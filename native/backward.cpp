// Gradients from the output and the log-sums: weights are computed again, tile by tile, and never kept.
// Compiled once per level; see README.md.
//
// With p the weights, dp = dy vᵀ and delta = Σ dy·y − dlse of a row:
//   ds = p (dp − delta),  dq = scale · ds k,  dk = scale · dsᵀ q,  dv = pᵀ dy.
// A task takes one block of keys of one key head through the blocks of queries that read it, and so has dk and dv to
// itself.  dq of a block of queries gathers from the tasks of all blocks of keys, each in its turn: no sum depends on
// the threads.
#include <math.h>

#include "meeting.h"

namespace overt::OVERT_LEVEL {
namespace {

template <class Acc> struct Backward {
  static constexpr int lanes = kLanes<Acc>, panel = kPanel<Acc>;

  struct Shared {
    int* turns = nullptr;     // [sets][query_blocks] how many blocks of keys have given dq their share
    Acc* deltas = nullptr;    // [B][H][T]
    double* sinks = nullptr;  // [B][H]
    double* additive = nullptr;  // [tasks][D]
    void place(Arena& arena, const Way<Acc>& way) {
      arena.take(turns, way.sets * way.query_blocks);
      arena.take(deltas, way.p.B * way.p.H * way.p.T);
      if (way.sinks) arena.take(sinks, way.p.B * way.p.H);
      if (way.p.additive) arena.take(additive, way.tasks * way.p.D);
    }
  };

  const Problem& p;
  const Way<Acc>& way;
  const Pull& pull;
  const Shared& shared;
  Meeting<Acc> meeting;
  Index set = 0;
  Index q[kQueryBlock] = {}, dy[kQueryBlock] = {};  // where the rows of a block begin

  void task(Index index) {
    // Neighbouring tasks belong to different key heads, and so seldom wait for each other.
    set = index % way.sets;
    Index block = index / way.sets;
    Range keys = {int(block * way.keys), int(smaller<Index>(p.S, (block + 1) * way.keys))};
    meeting.keys = keys;
    load_keys();
    const Bench<Acc>& work = meeting.work;
    Index size = round_up(keys.end - keys.begin, kRows);
    __builtin_memset(work.dk, 0, size * way.wide_D * sizeof(Acc));
    __builtin_memset(work.dv, 0, size * way.wide_E * sizeof(Acc));
    meeting.pulled = 0;
    if (p.additive) __builtin_memset(work.additive, 0, p.D * sizeof(double));
    for (Index i = 0; i < way.query_blocks && !stopped(); ++i) pull_block(i, int(block));
    const Acc scale = Acc(p.scale), *additive = meeting.scoring.v;
    for (int s = 0; s < keys.end - keys.begin; ++s) {
      Index place = set * p.S + keys.begin + s;
      if (pull.dk) {
        Acc* dk = static_cast<Acc*>(pull.dk) + place * p.D;
        for (Index d = 0; d < p.D; ++d) dk[d] = work.dk[s * way.wide_D + d] * scale;
        // tanh' = 4 (r − r²).
        for (Index d = 0; additive && d < p.D; ++d) dk[d] = 4 * dk[d] * additive[d];
      }
      if (!pull.dv) continue;
      Acc* dv = static_cast<Acc*>(pull.dv) + place * p.E;
      for (Index e = 0; e < p.E; ++e) dv[e] = work.dv[s * way.wide_E + e];
    }
    // tanh = 1 − 2r.
    for (Index d = 0; p.additive && d < p.D; ++d)
      shared.additive[index * p.D + d] = p.scale * (p.steep ? work.additive[d] : meeting.pulled - 2 * work.additive[d]);
  }

  void load_keys() {
    with_input<Acc>(p.type, [&]<class In>() { load_keys_as<In>(); });
  }
  template <class In> void load_keys_as() {
    const Bench<Acc>& work = meeting.work;
    int size = meeting.keys.end - meeting.keys.begin;
    for (int s = 0; s < size; s += kRows) {
      const In *k[kRows], *v[kRows];
      int some = smaller(kRows, size - s);
      for (int r = 0; r < some; ++r) {
        k[r] = at<In>(p.k, set / p.G, set % p.G, meeting.keys.begin + s + r);
        v[r] = at<In>(p.v, set / p.G, set % p.G, meeting.keys.begin + s + r);
        for (Index d = 0; d < way.wide_D; d += lanes)
          store(work.key_rows + (s + r) * way.wide_D + d, finite(load_some(k[r] + d, p.D - d)));
      }
      Acc* values = work.values + s / kRows * p.E * kQueries<Acc>;
      Acc* keys = work.keys + s / kRows * p.D * kQueries<Acc>;
      pack_queries<In>(k, some, p.D, Acc(1), keys);
      settle(keys, p.D * kQueries<Acc>);
      pack_queries<In>(v, some, p.E, Acc(1), values);
      for (Index i = 0; i < p.E * kQueries<Acc>; i += lanes) store(values + i, finite(load(values + i)));
    }
  }

  void settle(Acc* packed, Index size) const {
    if (!p.additive) return;
    make_finite(packed, size);
    raise(p.bounded, packed, size);
  }

  // The task's keys and one block of queries.
  void pull_block(Index index, int block) {
    bool meet = find_rows(index * kQueryBlock);
    if (way.sinks && block == 0) pull_sinks();
    if (pull.dbias) meeting.clear_bias();
    if (meet) {
      load_rows();
      meeting.meet();
    }
    if (!pull.dq) return;
    int* turn = shared.turns + set * way.query_blocks + index;
    // Whoever comes before us has started before us, and waits for nobody who comes after.
    wait_for_turn(turn, block);
    const Acc scale = Acc(p.scale);
    const Index D = p.D;
    if (meet || block == 0)
      for (int r = 0; r < meeting.count; ++r) {
        Acc* __restrict dq = static_cast<Acc*>(pull.dq) + meeting.work.rows[r].place * D;
        const Acc* share = meeting.work.dq + r * way.wide_D;
        if (!meet) __builtin_memset(dq, 0, D * sizeof(Acc));
        else if (block == 0) for (Index d = 0; d < D; ++d) dq[d] = share[d] * scale;
        else for (Index d = 0; d < D; ++d) dq[d] += share[d] * scale;
      }
    pass_turn(turn, block + 1);
  }

  // Where the rows of a block lie and what they may see; whether they may see a key of the task.
  // Rows of a key head are ordered by (t, head): neighbours see similar keys.
  bool find_rows(Index first) {
    int count = int(smaller<Index>(kQueryBlock, way.rows - first));
    Index b = set / p.G, head = set % p.G * way.heads, t = first / way.heads, h = head + first % way.heads;
    meeting.start(count);
    for (int r = 0; r < count; ++r) {
      q[r] = b * p.q.batch + h * p.q.head + t * p.q.row;
      dy[r] = b * pull.dy.batch + h * pull.dy.head + t * pull.dy.row;
      Range span = {0, int(p.S)};
      if (p.first.data) span.begin = larger(0, int(*at<std::int32_t>(p.first, b, h, t)));
      if (p.last.data) span.end = smaller(span.end, int(*at<std::int32_t>(p.last, b, h, t)));
      Row<Acc>& row = meeting.work.rows[r];
      row.place = (b * p.H + h) * p.T + t;
      row.bits = p.bits.data ? at<std::uint8_t>(p.bits, b, h, t) : nullptr;
      row.bias = p.bias.data ? at<Acc>(p.bias, b, h, t) : nullptr;
      row.span = span.empty() ? Range{0, 0} : span;
      meeting.note(r);
      if (++h == head + way.heads) h = head, ++t;
    }
    return meeting.any_visible();
  }

  // delta of all rows of one query head.
  void find_deltas(Index head) {
    with_input<Acc>(p.type, [&]<class In>() { find_deltas_as<In>(head); });
  }
  template <class In> void find_deltas_as(Index head) {
    for (Index t = 0; t < p.T; ++t) {
      const In *y = at<In>(pull.output, head / p.H, head % p.H, t), *dy = at<In>(pull.dy, head / p.H, head % p.H, t);
      Lane<Acc> products = {};
      for (Index e = 0; e < p.E; e += lanes) products += load_some(y + e, p.E - e) * load_some(dy + e, p.E - e);
      const Acc* dlse = static_cast<const Acc*>(pull.dlse);
      shared.deltas[head * p.T + t] = sum<Acc>(products) - (dlse ? dlse[head * p.T + t] : Acc(0));
    }
  }

  void load_rows() {
    with_input<Acc>(p.type, [&]<class In>() { load_rows_as<In>(); });
  }
  template <class In> void load_rows_as() {
    const In *queries = static_cast<const In*>(p.q.data), *dys = static_cast<const In*>(pull.dy.data);
    const Bench<Acc>& work = meeting.work;
    // Copies, since a store of a vector may alias whatever is not local.
    const Index D = p.D, E = p.E, wide_D = way.wide_D, wide_E = way.wide_E;
    Acc *query_row = work.query_rows, *dy_row = work.dy_rows;
    Lane<Acc> suspect = {};
    for (int r = 0; r < meeting.count; ++r, query_row += wide_D, dy_row += wide_E) {
      Index place = work.rows[r].place;
      meeting.set_row(r, static_cast<const Acc*>(pull.lse.value)[place], rest_of(place), shared.deltas[place],
                      work.rows[r].span);
      if (p.dropout > 0) {
        work.query[r] = meeting.dropping.query(place);
        work.head[r] = meeting.dropping.head(place);
        work.batch[r] = meeting.dropping.batch(place);
      }
      const In *query = queries + q[r], *slope = dys + dy[r];
      for (Index d = 0; d < wide_D; d += lanes) store(query_row + d, finite(load_some(query + d, D - d)));
      for (Index e = 0; e < wide_E; e += lanes) {
        Lane<Acc> x = load_some(slope + e, E - e);
        store(dy_row + e, x);
        suspect += x * Acc(0);
      }
    }
    meeting.wild = sum<Acc>(suspect) != 0;
    // Rows that only fill up the last panel get weights of 0.
    for (int r = meeting.count; r < meeting.width; ++r) meeting.set_row(r, Acc(-kInfinity), 0, 0, {0, 0});
    for (int r = 0; r < meeting.width; r += lanes) {
      // The factor goes into the queries, as it did on the way there: every score is the same to the last bit.
      const Index first = r / panel * panel, half = r % panel, count = meeting.count - r;
      pack_half(queries, q + r, count, p.D, meeting.scoring.factor, work.queries + first * p.D + half);
      pack_half(dys, dy + r, count, p.E, Acc(1), work.dys + first * p.E + half);
    }
    settle(work.queries, meeting.width * p.D);
  }

  template <class In>
  OVERT_APART static void pack_half(const In* from, const Index* rows, Index count, Index width, Acc factor, Acc* out) {
    pack_half_panel<In, false>([&](int i) { return from + rows[i]; }, count, width, factor, out);
  }

  Acc rest_of(Index place) const { return pull.lse.rest ? static_cast<const Acc*>(pull.lse.rest)[place] : Acc(0); }

  // A sink takes its share of a row and gives nothing for it, so its logit pulls by −p delta.
  void pull_sinks() {
    for (int r = 0; r < meeting.count; ++r) {
      Index place = meeting.work.rows[r].place, head = place / p.T;
      double sink = static_cast<const Acc*>(p.sinks)[head % p.H], lse = static_cast<const Acc*>(pull.lse.value)[place],
             rest = rest_of(place);
      if (sink != -double(kInfinity)) shared.sinks[head] -= ::exp(sink - lse - rest) * double(shared.deltas[place]);
    }
  }

  static bool run(const Problem& p, const Run& run, const Pull& pull) {
    Way<Acc> way(p, p.sinks && pull.dsinks);
    Run chosen = {int(smaller<Index>(worthwhile_threads(p, run), way.tasks)), run.poison};
    Scratch<Shared, Bench<Acc>, Way<Acc>> scratch(way, chosen);
    if (!scratch.memory) return false;
    Shared shared = scratch.shared();
    __builtin_memset(shared.turns, 0, way.sets * way.query_blocks * sizeof(int));
    if (way.sinks) __builtin_memset(shared.sinks, 0, p.B * p.H * sizeof(double));
    Queue heads, queue;
    in_parallel(chosen.threads, [&](int thread) {
      Backward backward = {p, way, pull, shared, {p, way, pull, Scoring<Acc>(p), Dropping<Acc>(p), scratch.workspace(thread)}};
      for (Index head; (head = heads.take()) < p.B * p.H;) backward.find_deltas(head);
      wait_for_all(chosen.threads);
      for (Index index; (index = queue.take()) < way.tasks;) backward.task(index);
    });
    for (Index h = 0; way.sinks && h < p.H; ++h) {
      double total = 0;
      for (Index b = 0; b < p.B; ++b) total += shared.sinks[b * p.H + h];
      static_cast<Acc*>(pull.dsinks)[h] = Acc(total);
    }
    for (Index d = 0; p.additive && d < p.D; ++d) {
      double total = 0;
      for (Index task = 0; task < way.tasks; ++task) total += shared.additive[task * p.D + d];
      static_cast<Acc*>(pull.dadditive)[d] = Acc(total);
    }
    return true;
  }
};

}  // namespace

bool backward(const Problem& p, const Run& run, const Pull& pull) {
  return run_as<Backward>(p.type, p, run, pull);
}

}  // namespace overt::OVERT_LEVEL
