// The journal on SQLite. Hot statements are prepared once. What a block wrote is one packed value in its row (varints),
// since a row per object would double the inserts of a run of a million blocks.
#include "engine/run/journal.h"

#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <unordered_map>

#include "engine/plan/places.h"
#include "storage/error.h"

namespace cuboid {
namespace {

constexpr int kJournalApplicationId = 0x43756231;  // "Cub1"
constexpr int kJournalVersion = 2;
constexpr int kBeginTimeoutMs = 5000;
constexpr auto kPatience = std::chrono::seconds(10);

constexpr const char* kJournalSchema = R"sql(
CREATE TABLE runs(id INTEGER PRIMARY KEY, started REAL NOT NULL, ended REAL NOT NULL DEFAULT 0, pid INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT '', wall REAL NOT NULL DEFAULT 0, peak_rss INTEGER NOT NULL DEFAULT 0);
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE blocks(stage INTEGER NOT NULL, block INTEGER NOT NULL, fingerprint BLOB NOT NULL,
  attempts INTEGER NOT NULL, grown INTEGER NOT NULL, allowed INTEGER NOT NULL, allowance INTEGER NOT NULL,
  peak INTEGER NOT NULL, peak_u INTEGER NOT NULL, seconds REAL NOT NULL, objects BLOB NOT NULL,
  PRIMARY KEY(stage, block)) WITHOUT ROWID;
CREATE TABLE sources(array INTEGER NOT NULL, chunk INTEGER NOT NULL, identity INTEGER NOT NULL,
  stamp INTEGER NOT NULL, bytes INTEGER NOT NULL, crc32c INTEGER, PRIMARY KEY(array, chunk)) WITHOUT ROWID;
CREATE TABLE failures(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, stage INTEGER NOT NULL, block INTEGER NOT NULL,
  attempt INTEGER NOT NULL, outcome TEXT NOT NULL, evidence TEXT NOT NULL, allowed INTEGER NOT NULL,
  allowance INTEGER NOT NULL, needed INTEGER NOT NULL, peak INTEGER NOT NULL, peak_u INTEGER NOT NULL,
  seconds REAL NOT NULL, message TEXT NOT NULL);
CREATE TABLE parked(stage INTEGER NOT NULL, block INTEGER NOT NULL, exit_code INTEGER NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY(stage, block)) WITHOUT ROWID;
CREATE TABLE answers(id INTEGER PRIMARY KEY, run INTEGER NOT NULL, stage INTEGER NOT NULL, block INTEGER NOT NULL,
  choice TEXT NOT NULL, bytes INTEGER NOT NULL, always INTEGER NOT NULL);
CREATE TABLE outputs(location TEXT PRIMARY KEY, metadata BLOB NOT NULL, published INTEGER NOT NULL,
  run_dir TEXT NOT NULL);
CREATE TABLE taught(stage INTEGER NOT NULL, class INTEGER NOT NULL, finished INTEGER NOT NULL, above INTEGER NOT NULL,
  worst_finished REAL NOT NULL, worst_seen REAL NOT NULL, PRIMARY KEY(stage, class)) WITHOUT ROWID;
CREATE TABLE shapes(array TEXT PRIMARY KEY, shape BLOB NOT NULL);
CREATE TABLE bounds(array TEXT PRIMARY KEY, bound INTEGER NOT NULL);
)sql";

[[noreturn]] void fail(sqlite3* db, const std::string& path, int code) {
  const std::string text = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_MISMATCH:
      throw Error(ErrorKind::corrupt, "the journal " + path + " is damaged (" + text +
                                          "): nothing in it can be trusted; start anew with --fresh, which "
                                          "computes everything again");
    default:
      throw Error(ErrorKind::io, "the journal " + path + ": " + text +
                                     "; see that its disk has space and may be written, then run the same command");
  }
}

// --- packed values

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Reads what put_varint wrote; `ok` turns false at the first fault and stays so.
struct Unpacker {
  std::string_view rest;
  bool ok = true;

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest.front());
      rest.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    ok = false;
    return 0;
  }
  std::int64_t number() { return static_cast<std::int64_t>(varint()); }
  std::string text() {
    const std::uint64_t length = varint();
    if (length > rest.size()) return ok = false, std::string();
    std::string value(rest.substr(0, length));
    rest.remove_prefix(length);
    return value;
  }
  Shape shape() {
    const std::uint64_t rank = varint();
    if (rank > kMaxRank) return ok = false, Shape();
    Shape value(rank);
    for (std::int64_t& extent : value) extent = number();
    return value;
  }
};

void put_shape(std::string& out, const Shape& shape) {
  put_varint(out, shape.size());
  for (const std::int64_t extent : shape) put_varint(out, static_cast<std::uint64_t>(extent));
}

// Where an output lies that a run directory made when it lay at `then`: where both were moved together, beside it
// still.
std::string moved(const std::string& location, const std::string& then, const std::string& now) {
  namespace fs = std::filesystem;
  if (then == now || !location.starts_with('/')) return location;
  const fs::path beside = (fs::path(now) / fs::path(location).lexically_relative(then)).lexically_normal();
  std::error_code error;
  return fs::exists(beside, error) || !fs::exists(location, error) ? beside.string() : location;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

// A connection and its prepared statements.
struct Journal::State {
  // A statement bound and stepped in one breath. Reset when it goes out of scope.
  class Query {
   public:
    Query(State& state, const char* sql) : state_(state) {
      sqlite3_stmt*& cached = state.statements[sql];
      if (!cached) state.check(sqlite3_prepare_v3(state.db, sql, -1, SQLITE_PREPARE_PERSISTENT, &cached, nullptr));
      statement_ = cached;
    }
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;
    ~Query() {
      sqlite3_reset(statement_);
      sqlite3_clear_bindings(statement_);
    }
    Query& bind(std::int64_t value) { return state_.check(sqlite3_bind_int64(statement_, ++bound_, value)), *this; }
    Query& bind(std::uint64_t value) { return bind(static_cast<std::int64_t>(value)); }
    Query& bind(int value) { return bind(static_cast<std::int64_t>(value)); }
    Query& bind(double value) { return state_.check(sqlite3_bind_double(statement_, ++bound_, value)), *this; }
    // Texts and blobs must live until the statement is done.
    Query& bind(const std::string& value) {
      state_.check(sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), nullptr));
      return *this;
    }
    Query& blob(const void* data, std::size_t size) {
      state_.check(sqlite3_bind_blob(statement_, ++bound_, data, static_cast<int>(size), nullptr));
      return *this;
    }
    void run() { next(); }
    bool next() {
      const int code = sqlite3_step(statement_);
      if (code != SQLITE_ROW && code != SQLITE_DONE) state_.check(code);
      return code == SQLITE_ROW;
    }
    std::int64_t number(int column) const { return sqlite3_column_int64(statement_, column); }
    std::uint64_t bytes(int column) const { return static_cast<std::uint64_t>(number(column)); }
    bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
    double real(int column) const { return sqlite3_column_double(statement_, column); }
    std::string_view text(int column) const {
      const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
      return data ? std::string_view(data, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)))
                  : std::string_view();
    }

   private:
    State& state_;
    sqlite3_stmt* statement_ = nullptr;
    int bound_ = 0;
  };

  std::vector<JournalAnswer> answers(const char* sql);

  std::string path, run_dir;
  sqlite3* db = nullptr;
  std::unordered_map<const char*, sqlite3_stmt*> statements;  // by literal: each query has one text in this file
  std::unordered_map<std::string, std::int64_t> ids;
  std::unordered_map<std::int64_t, std::string> names;
  bool open_transaction = false;
  std::int64_t run = 0;
  std::string packed;  // reused

  ~State() {
    for (auto& [sql, statement] : statements) sqlite3_finalize(statement);
    sqlite3_close(db);
  }
  void check(int code) {
    if (code != SQLITE_OK) fail(db, path, code);
  }
  void execute(const char* sql) { check(sqlite3_exec(db, sql, nullptr, nullptr, nullptr)); }
  std::int64_t pragma(const char* sql) {
    Query query(*this, sql);
    return query.next() ? query.number(0) : 0;
  }
  void write() {
    if (open_transaction) return;
    sqlite3_busy_timeout(db, kBeginTimeoutMs);
    execute("BEGIN IMMEDIATE");
    open_transaction = true;
  }
  std::int64_t id_of(const std::string& name) {
    if (const auto known = ids.find(name); known != ids.end()) return known->second;
    write();
    Query(*this, "INSERT INTO names(name) VALUES(?)").bind(name).run();
    const std::int64_t id = sqlite3_last_insert_rowid(db);
    ids.emplace(name, id), names.emplace(id, name);
    return id;
  }
  const std::string& name_of(std::int64_t id) {
    const auto known = names.find(id);
    if (known != names.end()) return known->second;
    load_names();  // a reader: the coordinator may have added some
    const auto found = names.find(id);
    if (found == names.end()) fail(nullptr, path, SQLITE_CORRUPT);
    return found->second;
  }
  void load_names() {
    Query query(*this, "SELECT id, name FROM names");
    while (query.next()) {
      ids.emplace(std::string(query.text(1)), query.number(0));
      names.emplace(query.number(0), std::string(query.text(1)));
    }
  }
  Fingerprint fingerprint(std::string_view blob) {
    Fingerprint value;
    if (blob.size() != sizeof value) fail(nullptr, path, SQLITE_CORRUPT);
    std::memcpy(&value, blob.data(), sizeof value);
    return value;
  }
  void unpack(std::string_view blob, const std::function<void(JournalObject&)>& each) {
    Unpacker in{blob};
    while (in.ok && !in.rest.empty()) {
      JournalObject object;
      const std::int64_t array = in.number();
      object.chunk = in.number();
      object.bytes = in.varint();
      object.crc32c = static_cast<std::uint32_t>(in.varint());
      object.piece = in.text();
      object.extents = in.shape();
      if (!in.ok) break;
      object.array = name_of(array);
      each(object);
    }
    if (!in.ok) fail(nullptr, path, SQLITE_CORRUPT);
  }
  void pack(const std::vector<JournalObject>& objects) {
    packed.clear();
    for (const JournalObject& object : objects) {
      put_varint(packed, static_cast<std::uint64_t>(id_of(object.array)));
      put_varint(packed, static_cast<std::uint64_t>(object.chunk));
      put_varint(packed, object.bytes);
      put_varint(packed, object.crc32c);
      put_varint(packed, object.piece.size());
      packed += object.piece;
      put_shape(packed, object.extents);
    }
  }
};

Journal::Journal(const std::string& run_dir, Mode mode, bool durable) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.path = path_in(run_dir);
  s.run_dir = place(run_dir);
  const auto throw_none = [&] {
    throw Error(ErrorKind::not_found, run_dir + " holds no journal: it is no run directory, or nothing ran in it yet");
  };
  if (mode == Mode::read && !std::filesystem::exists(s.path)) throw_none();
  int code = sqlite3_open_v2(
      s.path.c_str(), &s.db,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (mode == Mode::create ? SQLITE_OPEN_CREATE : 0), nullptr);
  if (code != SQLITE_OK) fail(s.db, s.path, code);
  sqlite3_busy_timeout(s.db, kBeginTimeoutMs);
  const std::int64_t version = s.pragma("PRAGMA user_version");
  const std::int64_t application = s.pragma("PRAGMA application_id");
  // Empty: the file is new, or whoever made it was killed before its first commit.
  const bool empty = version == 0 && application == 0 && s.pragma("SELECT count(*) FROM sqlite_schema") == 0;
  if (empty && mode == Mode::read) throw_none();
  if (empty) {
    s.execute("BEGIN IMMEDIATE");
    s.execute(kJournalSchema);
    s.execute(("PRAGMA user_version=" + std::to_string(kJournalVersion)).c_str());
    s.execute(("PRAGMA application_id=" + std::to_string(kJournalApplicationId)).c_str());
    s.execute("COMMIT");
  } else if (application != kJournalApplicationId || version != kJournalVersion) {
    throw Error(ErrorKind::corrupt, "the journal " + s.path +
                                        " is not one that this version of cuboid wrote (version " +
                                        std::to_string(version) + ", expected " + std::to_string(kJournalVersion) +
                                        "): start anew with --fresh, or use the version that wrote it");
  }
  if (mode == Mode::read) {
    s.execute("PRAGMA query_only=1");
  } else {
    // One file that is truncated rather than deleted: a commit then changes no directory.
    s.execute("PRAGMA journal_mode=TRUNCATE");
    s.execute(durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
    s.execute("PRAGMA cache_spill=OFF");  // else a large batch would need the readers' lock before its commit
  }
  s.load_names();
}

Journal::Journal(Journal&&) noexcept = default;
Journal::~Journal() = default;

std::int64_t Journal::begin_run() {
  State& s = *state_;
  const std::vector<JournalOutput> found = outputs();
  s.write();
  // Of a run directory that was moved: as they are known from now on.
  State::Query(s, "DELETE FROM outputs").run();
  for (const JournalOutput& output : found) set_output(output);
  State::Query(s, "DELETE FROM parked").run();
  State::Query(s, "INSERT INTO runs(started, pid) VALUES(?, ?)").bind(now()).bind(getpid()).run();
  return s.run = sqlite3_last_insert_rowid(s.db);
}

void Journal::end_run(const std::string& status, double wall_seconds, std::uint64_t peak_rss_bytes) {
  state_->write();
  State::Query(*state_, "UPDATE runs SET ended=?, status=?, wall=?, peak_rss=? WHERE id=?")
      .bind(now())
      .bind(status)
      .bind(wall_seconds)
      .bind(peak_rss_bytes)
      .bind(state_->run)
      .run();
}

void Journal::add_block(const std::string& stage, const JournalBlock& row) {
  State& s = *state_;
  s.write();
  s.pack(row.objects);
  State::Query(s, "INSERT OR REPLACE INTO blocks VALUES(?,?,?,?,?,?,?,?,?,?,?)")
      .bind(s.id_of(stage))
      .bind(row.block)
      .blob(&row.fingerprint, sizeof row.fingerprint)
      .bind(row.attempts)
      .bind(static_cast<int>(row.grown))
      .bind(row.allowed)
      .bind(row.allowance)
      .bind(row.peak)
      .bind(row.peak_u)
      .bind(row.seconds)
      .blob(s.packed.data(), s.packed.size())
      .run();
}

void Journal::add_source(const std::string& array, const JournalSource& row) {
  State& s = *state_;
  s.write();
  const char* const sql =
      "INSERT INTO sources VALUES(?,?,?,?,?,?) ON CONFLICT(array, chunk) DO UPDATE SET crc32c = "
      "CASE WHEN identity = excluded.identity AND crc32c IS NOT excluded.crc32c THEN NULL ELSE excluded.crc32c END, "
      "identity = excluded.identity, stamp = excluded.stamp, bytes = excluded.bytes";
  State::Query query(s, sql);
  query.bind(s.id_of(array)).bind(row.chunk).bind(row.identity).bind(row.stamp).bind(row.bytes);
  if (row.crc32c) query.bind(static_cast<std::int64_t>(*row.crc32c));
  query.run();
}

void Journal::add_taught(const JournalTaught& row) {
  State& s = *state_;
  s.write();
  State::Query(s, "INSERT OR REPLACE INTO taught VALUES(?,?,?,?,?,?)")
      .bind(s.id_of(row.stage))
      .bind(row.shape_class)
      .bind(row.finished)
      .bind(row.above)
      .bind(row.worst_finished)
      .bind(row.worst_seen)
      .run();
}

void Journal::add_failure(const JournalFailure& row) {
  State& s = *state_;
  s.write();
  State::Query(s, "INSERT INTO failures VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?)")
      .bind(s.run)
      .bind(s.id_of(row.stage))
      .bind(row.block)
      .bind(row.attempt)
      .bind(row.outcome)
      .bind(row.evidence)
      .bind(row.allowed)
      .bind(row.allowance)
      .bind(row.needed)
      .bind(row.peak)
      .bind(row.peak_u)
      .bind(row.seconds)
      .bind(row.message)
      .run();
}

void Journal::add_parked(const JournalParked& row) {
  State& s = *state_;
  s.write();
  State::Query(s, "INSERT OR REPLACE INTO parked VALUES(?,?,?,?)")
      .bind(s.id_of(row.stage))
      .bind(row.block)
      .bind(row.exit_code)
      .bind(row.why)
      .run();
}

void Journal::add_answer(const JournalAnswer& row) {
  State& s = *state_;
  s.write();
  State::Query(s, "INSERT INTO answers VALUES(NULL,?,?,?,?,?,?)")
      .bind(s.run)
      .bind(s.id_of(row.stage))
      .bind(row.block)
      .bind(row.choice)
      .bind(row.bytes)
      .bind(static_cast<int>(row.always))
      .run();
}

void Journal::set_output(const JournalOutput& row) {
  state_->write();
  State::Query(*state_, "INSERT OR REPLACE INTO outputs VALUES(?,?,?,?)")
      .bind(place(row.location))
      .blob(&row.metadata, sizeof row.metadata)
      .bind(static_cast<int>(row.published))
      .bind(state_->run_dir)
      .run();
}

void Journal::forget_output(const std::string& location) {
  state_->write();
  State::Query(*state_, "DELETE FROM outputs WHERE location=?").bind(place(location)).run();
}

void Journal::set_shape(const std::string& array, const Shape& shape) {
  state_->write();
  std::string packed;
  put_shape(packed, shape);
  State::Query(*state_, "INSERT OR REPLACE INTO shapes VALUES(?,?)")
      .bind(array)
      .blob(packed.data(), packed.size())
      .run();
}

void Journal::set_bound(const std::string& array, std::int64_t bound) {
  state_->write();
  State::Query(*state_, "INSERT OR REPLACE INTO bounds VALUES(?,?)").bind(array).bind(bound).run();
}

bool Journal::dirty() const { return state_->open_transaction; }

bool Journal::commit(bool patient) {
  State& s = *state_;
  if (!s.open_transaction) return true;
  sqlite3_busy_timeout(s.db, patient ? static_cast<int>(std::chrono::milliseconds(kPatience).count()) : 0);
  const int code = sqlite3_exec(s.db, "COMMIT", nullptr, nullptr, nullptr);
  if (code == SQLITE_BUSY && !patient) return false;
  s.check(code);
  s.open_transaction = false;
  return true;
}

void Journal::each_block(const std::string& stage, const std::function<void(const JournalBlock&)>& each) const {
  State& s = *state_;
  if (!s.ids.contains(stage)) s.load_names();
  const auto id = s.ids.find(stage);
  if (id == s.ids.end()) return;
  State::Query query(s,
                     "SELECT block, fingerprint, attempts, grown, allowed, allowance, peak, peak_u, seconds, objects "
                     "FROM blocks WHERE stage=? ORDER BY block");
  query.bind(id->second);
  JournalBlock row;
  while (query.next()) {
    row.block = query.number(0);
    row.fingerprint = s.fingerprint(query.text(1));
    row.attempts = static_cast<int>(query.number(2));
    row.grown = query.number(3) != 0;
    row.allowed = query.bytes(4), row.allowance = query.bytes(5);
    row.peak = query.bytes(6), row.peak_u = query.bytes(7);
    row.seconds = query.real(8);
    row.objects.clear();
    s.unpack(query.text(9), [&](JournalObject& object) { row.objects.push_back(std::move(object)); });
    each(row);
  }
}

void Journal::each_object(const std::string& stage,
                          const std::function<void(std::int64_t block, const JournalObject&)>& each) const {
  State& s = *state_;
  if (!s.ids.contains(stage)) s.load_names();
  const auto id = s.ids.find(stage);
  if (id == s.ids.end()) return;
  State::Query query(s, "SELECT block, objects FROM blocks WHERE stage=? ORDER BY block");
  query.bind(id->second);
  while (query.next()) s.unpack(query.text(1), [&](JournalObject& object) { each(query.number(0), object); });
}

void Journal::each_source(const std::string& array, const std::function<void(const JournalSource&)>& each) const {
  State& s = *state_;
  if (!s.ids.contains(array)) s.load_names();
  const auto id = s.ids.find(array);
  if (id == s.ids.end()) return;
  State::Query query(s, "SELECT chunk, identity, stamp, bytes, crc32c FROM sources WHERE array=? ORDER BY chunk");
  query.bind(id->second);
  while (query.next()) {
    JournalSource row{query.number(0), query.bytes(1), query.bytes(2), query.bytes(3), std::nullopt};
    if (!query.is_null(4)) row.crc32c = static_cast<std::uint32_t>(query.number(4));
    each(row);
  }
}

std::vector<std::string> Journal::stages() const {
  State::Query query(*state_, "SELECT DISTINCT stage FROM blocks UNION SELECT stage FROM failures");
  std::vector<std::string> result;
  while (query.next()) result.push_back(state_->name_of(query.number(0)));
  return result;
}

std::map<std::int64_t, int> Journal::failed_attempts(const std::string& stage) const {
  State& s = *state_;
  std::map<std::int64_t, int> result;
  const auto id = s.ids.find(stage);
  if (id == s.ids.end()) return result;
  State::Query query(s, "SELECT block, max(attempt) FROM failures WHERE stage=? GROUP BY block");
  query.bind(id->second);
  while (query.next()) result[query.number(0)] = static_cast<int>(query.number(1));
  return result;
}

std::vector<JournalTaught> Journal::taught() const {
  State::Query query(*state_, "SELECT stage, class, finished, above, worst_finished, worst_seen FROM taught");
  std::vector<JournalTaught> result;
  while (query.next())
    result.push_back({state_->name_of(query.number(0)), query.bytes(1), query.number(2), query.number(3), query.real(4),
                      query.real(5)});
  return result;
}

std::vector<JournalFailure> Journal::failures() const {
  State::Query query(*state_,
                     "SELECT stage, block, attempt, outcome, evidence, allowed, allowance, needed, peak, peak_u, "
                     "seconds, message FROM failures ORDER BY id");
  std::vector<JournalFailure> result;
  while (query.next())
    result.push_back({state_->name_of(query.number(0)), query.number(1), static_cast<int>(query.number(2)),
                      std::string(query.text(3)), std::string(query.text(4)), query.bytes(5), query.bytes(6),
                      query.bytes(7), query.bytes(8), query.bytes(9), query.real(10), std::string(query.text(11))});
  return result;
}

std::vector<JournalParked> Journal::parked() const {
  State::Query query(*state_, "SELECT stage, block, exit_code, why FROM parked");
  std::vector<JournalParked> result;
  while (query.next())
    result.push_back({state_->name_of(query.number(0)), query.number(1), static_cast<int>(query.number(2)),
                      std::string(query.text(3))});
  return result;
}

std::vector<JournalAnswer> Journal::State::answers(const char* sql) {
  Query query(*this, sql);
  std::vector<JournalAnswer> result;
  while (query.next())
    result.push_back(
        {name_of(query.number(0)), query.number(1), std::string(query.text(2)), query.bytes(3), query.number(4) != 0});
  return result;
}

std::vector<JournalAnswer> Journal::answers() const {
  return state_->answers("SELECT stage, block, choice, bytes, always FROM answers ORDER BY id");
}

std::vector<JournalAnswer> Journal::standing_answers() const {
  return state_->answers(
      "SELECT stage, block, choice, bytes, always FROM answers "
      "WHERE run > (SELECT coalesce(max(id), 0) FROM runs WHERE ended > 0) ORDER BY id");
}

std::vector<JournalOutput> Journal::outputs() const {
  State::Query query(*state_, "SELECT location, metadata, published, run_dir FROM outputs ORDER BY location");
  std::vector<JournalOutput> result;
  while (query.next()) {
    const std::string location(query.text(0));
    // A relative path, as journals held before they held places: nobody knows below which folder, so it is not ours.
    if (!location.starts_with('/') && location.find("://") == std::string::npos) continue;
    // Spelt anew: a link may stand there by now.
    result.push_back({place(moved(location, std::string(query.text(3)), state_->run_dir)),
                      state_->fingerprint(query.text(1)), query.number(2) != 0});
  }
  return result;
}

std::map<std::string, Shape> Journal::shapes() const {
  State::Query query(*state_, "SELECT array, shape FROM shapes");
  std::map<std::string, Shape> result;
  while (query.next()) {
    Unpacker in{query.text(1)};
    Shape shape = in.shape();
    if (!in.ok) fail(nullptr, state_->path, SQLITE_CORRUPT);
    result.emplace(std::string(query.text(0)), std::move(shape));
  }
  return result;
}

std::map<std::string, std::int64_t> Journal::bounds() const {
  State::Query query(*state_, "SELECT array, bound FROM bounds");
  std::map<std::string, std::int64_t> result;
  while (query.next()) result.emplace(std::string(query.text(0)), query.number(1));
  return result;
}

std::vector<JournalRun> Journal::runs() const {
  State::Query query(*state_, "SELECT id, started, ended, pid, status, wall, peak_rss FROM runs ORDER BY id");
  std::vector<JournalRun> result;
  while (query.next())
    result.push_back({query.number(0), query.real(1), query.real(2), query.number(3), std::string(query.text(4)),
                      query.real(5), query.bytes(6)});
  return result;
}

}  // namespace cuboid
