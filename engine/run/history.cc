#include "engine/run/history.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/plan/plan_json.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr int kHistoryApplicationId = 0x43756248;  // "CubH"
constexpr int kHistoryVersion = 1;
constexpr int kPatienceMs = 2000;
constexpr const char* kHistorySchema = R"sql(
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS calls(function TEXT NOT NULL, plugin TEXT NOT NULL, params TEXT NOT NULL, block TEXT NOT NULL,
  declared INTEGER NOT NULL, peak INTEGER NOT NULL, finished INTEGER NOT NULL, worst_finished REAL NOT NULL,
  worst_seen REAL NOT NULL, above INTEGER NOT NULL, breaches INTEGER NOT NULL, updated REAL NOT NULL,
  PRIMARY KEY(function, plugin, params, block)) WITHOUT ROWID;
PRAGMA application_id=1131766344;
PRAGMA user_version=1;
COMMIT;
)sql";
static_assert(kHistoryApplicationId == 1131766344);

// The call that a stage's estimate is about: the first of foreign code.
const ProgramOp* foreign_call(const Stage& stage) {
  for (const ProgramOp& op : stage.program.ops)
    if (op.kernel->foreign()) return &op;
  return nullptr;
}

bool is_estimated(const Projection& projection) {
  return projection.uncertain > 0 || projection.unknown || projection.outside > 0;
}

}  // namespace

std::uint64_t shape_class(const Grid& grid, std::int64_t block) {
  const Shape index = grid.index(block);
  std::uint64_t bits = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis)
    if (index[axis] == grid.counts()[axis] - 1 && grid.shape()[axis] % grid.block()[axis] != 0)
      bits |= std::uint64_t{1} << axis;
  return bits;
}

CallKind call_kind(const Stage& stage, std::int64_t block) {
  CallKind kind;
  const ProgramOp* call = foreign_call(stage);
  if (!call) return kind;
  const KernelSpec& spec = call->kernel->spec();
  const std::string identity = call->kernel->identity();  // "sky.sources/1#hash"
  kind.function = identity.substr(0, identity.find('#'));
  kind.plugin = identity.substr(std::min(identity.size(), kind.function.size() + 1));
  nlohmann::json params = params_to_json(spec.params);
  if (spec.extra_memory) params["(extra_memory)"] = *spec.extra_memory;
  kind.params = params.dump();
  for (const auto& argument : spec.args)
    if (const auto* array = std::get_if<ArraySpec>(&argument)) kind.block += to_string(array->dtype) + " ";
  const std::vector<Box> boxes = op_boxes(stage.program, stage.grid.box(block));
  kind.block += to_string(boxes[static_cast<std::size_t>(call - stage.program.ops.data())].shape);
  return kind;
}

struct History::State {
  std::string path;
  sqlite3* db = nullptr;
  ~State() { sqlite3_close(db); }

  void check(int code) const {
    if (code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE) return;
    const bool damaged = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
    throw Error(damaged ? ErrorKind::corrupt : ErrorKind::io,
                "the history of earlier runs, " + path + ": " + sqlite3_errmsg(db) +
                    (damaged ? "; remove it, and it begins anew" : "; --no-history does without"));
  }
  void execute(const char* sql) const { check(sqlite3_exec(db, sql, nullptr, nullptr, nullptr)); }
  std::int64_t pragma(const char* sql) const {
    std::int64_t value = 0;
    query(sql, {}, [&](sqlite3_stmt* row) { value = sqlite3_column_int64(row, 0); });
    return value;
  }
  template <class Each>
  void query(const char* sql, const std::vector<std::string>& texts, Each each) const {
    sqlite3_stmt* raw = nullptr;
    check(sqlite3_prepare_v2(db, sql, -1, &raw, nullptr));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
    for (std::size_t k = 0; k < texts.size(); ++k)
      check(sqlite3_bind_text(raw, static_cast<int>(k) + 1, texts[k].data(), static_cast<int>(texts[k].size()),
                              SQLITE_TRANSIENT));
    int code = 0;
    while ((code = sqlite3_step(raw)) == SQLITE_ROW) each(raw);
    check(code);
  }
  std::vector<CallRecord> records(const char* sql, const std::vector<std::string>& texts) const {
    std::vector<CallRecord> found;
    query(sql, texts, [&](sqlite3_stmt* row) {
      const auto text = [&](int column) {
        const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
        return std::string(data ? data : "");
      };
      CallRecord record;
      record.kind = {text(0), text(1), text(2), text(3)};
      record.declared = static_cast<std::uint64_t>(sqlite3_column_int64(row, 4));
      record.peak = static_cast<std::uint64_t>(sqlite3_column_int64(row, 5));
      record.stats = {sqlite3_column_int64(row, 6), sqlite3_column_double(row, 7), sqlite3_column_double(row, 8),
                      sqlite3_column_int64(row, 9)};
      record.breaches = sqlite3_column_int64(row, 10);
      found.push_back(std::move(record));
    });
    return found;
  }
  void put(const CallRecord& record) const {
    const std::vector<std::string> key{record.kind.function, record.kind.plugin, record.kind.params, record.kind.block};
    const auto number = [](auto value) { return std::to_string(value); };
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    std::vector<std::string> values = key;
    for (const std::string& value : {number(record.declared), number(record.peak), number(record.stats.finished),
                                     number(record.stats.worst_finished), number(record.stats.worst_seen),
                                     number(record.stats.above), number(record.breaches), number(now)})
      values.push_back(value);
    // Column affinity turns the texts into numbers. Of another declared number what was known says nothing.
    query(
        "INSERT INTO calls VALUES(?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
        "peak = max(excluded.peak, iif(declared = excluded.declared, peak, 0)), "
        "finished = excluded.finished + iif(declared = excluded.declared, finished, 0), "
        "worst_finished = max(excluded.worst_finished, iif(declared = excluded.declared, worst_finished, 0)), "
        "worst_seen = max(excluded.worst_seen, iif(declared = excluded.declared, worst_seen, 0)), "
        "above = excluded.above + iif(declared = excluded.declared, above, 0), "
        "breaches = excluded.breaches + iif(declared = excluded.declared, breaches, 0), "
        "declared = excluded.declared, updated = excluded.updated",
        values, [](sqlite3_stmt*) {});
  }
};

History::History(const std::string& path) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = path;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  s.check(
      sqlite3_open_v2(path.c_str(), &s.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr));
  sqlite3_busy_timeout(s.db, kPatienceMs);
  if (s.pragma("PRAGMA application_id") == 0 && s.pragma("SELECT count(*) FROM sqlite_schema") == 0) {
    s.execute(kHistorySchema);
  } else if (s.pragma("PRAGMA application_id") != kHistoryApplicationId ||
             s.pragma("PRAGMA user_version") != kHistoryVersion) {
    throw Error(ErrorKind::corrupt,
                "the history of earlier runs, " + path +
                    ", is not one that this version of cuboid wrote; remove it, and it begins anew");
  }
}

History::History(History&&) noexcept = default;
History::~History() = default;

std::vector<CallRecord> History::find(const CallKind& kind) const {
  return state_->records("SELECT * FROM calls WHERE function=? AND plugin=? AND params=? AND block=?",
                         {kind.function, kind.plugin, kind.params, kind.block});
}

std::vector<CallRecord> History::of_function(const std::string& name) const {
  return state_->records(
      "SELECT * FROM calls WHERE ?1 IN (function, substr(function, 1, instr(function, '/') - 1)) "
      "ORDER BY updated DESC",
      {name});
}

void History::add(const std::vector<CallRecord>& records) {
  if (records.empty()) return;
  state_->execute("BEGIN IMMEDIATE");
  try {
    for (const CallRecord& record : records) state_->put(record);
    state_->execute("COMMIT");
  } catch (...) {
    sqlite3_exec(state_->db, "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
}

std::vector<Taught> taught_by(const History& history, const Plan& plan) {
  std::vector<Taught> result;
  for (const Stage& stage : plan.stages) {
    if (!is_estimated(stage.projection) || stage.grid.size() == 0) continue;
    // A block of each class: for every axis the first along it or the last.
    std::map<std::uint64_t, std::int64_t> classes;
    const Shape& counts = stage.grid.counts();
    for (std::uint64_t corner = 0; corner < (std::uint64_t{1} << std::min<std::size_t>(counts.size(), 16)); ++corner) {
      Shape index(counts.size(), 0);
      for (std::size_t axis = 0; axis < std::min<std::size_t>(counts.size(), 16); ++axis)
        if (corner >> axis & 1) index[axis] = counts[axis] - 1;
      const std::int64_t block = stage.grid.linear(index);
      classes.emplace(shape_class(stage.grid, block), block);
    }
    for (const auto& [bits, block] : classes) {
      const CallKind kind = call_kind(stage, block);
      if (kind.function.empty()) continue;
      for (const CallRecord& record : history.find(kind))
        if (record.declared == stage.projection.uncertain) result.push_back({stage.name, bits, record.stats});
    }
  }
  return result;
}

}  // namespace cuboid
