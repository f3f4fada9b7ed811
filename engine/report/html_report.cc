// The report as one HTML page: what was promised and what was measured, stage by stage. No script, no network.
#include <algorithm>
#include <cstdio>
#include <ctime>

#include "engine/report/run_record.h"
#include "engine/report/table.h"
#include "storage/types.h"

namespace cuboid {
namespace {

constexpr const char* kStyle = R"(
:root{--ink:#1b2430;--soft:#5c6b7d;--line:#dde3ea;--paper:#fbfcfd;--card:#fff;--projected:#c9d6e6;--allowed:#f2c572;
--measured:#2b6cb0;--good:#2f855a;--bad:#c0392b}
@media(prefers-color-scheme:dark){:root{--ink:#e4eaf1;--soft:#93a1b3;--line:#2c3845;--paper:#11171e;--card:#18212b;
--projected:#3a4a5e;--allowed:#8a6a26;--measured:#63a4e8;--good:#57c08a;--bad:#ef7d70}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:68rem;margin:0 auto;padding:2.5rem 1.25rem 4rem}
h1{font-size:1.5rem;font-weight:650;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;font-weight:650;margin:2.5rem 0 .75rem}
.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin-top:1.5rem}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:.8rem 1rem}.tile b{display:block;font-size:1.25rem;font-weight:650}
.tile span{font-size:.8rem;color:var(--soft)}
.card{padding:1rem 1.1rem;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th{text-align:left;font-weight:600;color:var(--soft);padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);white-space:nowrap}
td{padding:.35rem .9rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}
.n{text-align:right;white-space:nowrap}td.w{overflow-wrap:break-word;max-width:30rem}
.stage{display:grid;grid-template-columns:minmax(9rem,16rem) 1fr minmax(8rem,11rem);gap:.35rem 1rem;align-items:center;padding:.55rem 0;border-bottom:1px solid var(--line)}
.stage:last-of-type{border-bottom:0}.stage svg{display:block;width:100%;height:34px}
.key i{display:inline-block;width:.8rem;height:.8rem;border-radius:3px;margin:0 .35rem 0 1rem;vertical-align:-1px}
.key i:first-child{margin-left:0}
@media(max-width:40rem){.stage{grid-template-columns:1fr}}
)";

std::string escaped(std::string_view text) {
  std::string safe;
  for (char byte : text) {
    switch (byte) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += byte;
    }
  }
  return safe;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string date(double seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[64];
  if (!::gmtime_r(&time, &parts) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) return "?";
  return text;
}

std::string tile(const std::string& value, const std::string& what, const char* tone = "") {
  return "<div class=\"tile\"><b class=\"" + std::string(tone) + "\">" + escaped(value) + "</b><span>" + escaped(what) +
         "</span></div>\n";
}

std::string table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                  const std::vector<bool>& numeric) {
  const auto kind = [&](std::size_t k) { return numeric[k] ? " class=\"n\"" : " class=\"w\""; };
  std::string html = "<div class=\"card\"><table><thead><tr>";
  for (std::size_t k = 0; k < titles.size(); ++k)
    html += "<th" + std::string(kind(k)) + ">" + escaped(titles[k]) + "</th>";
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t k = 0; k < row.size(); ++k) html += "<td" + std::string(kind(k)) + ">" + escaped(row[k]) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// One stage: projected, allowed and measured on the scale of the largest, with a dot for each block's peak.
std::string stage_bars(const RecordedStage& stage, double largest) {
  const auto x = [largest](std::uint64_t bytes) { return 1000.0 * static_cast<double>(bytes) / largest; };
  std::string svg =
      "<svg viewBox=\"0 0 1000 34\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"memory of stage " +
      escaped(stage.name) + "\">";
  const auto bar = [&](std::uint64_t bytes, double y, double height, const char* colour) {
    if (bytes == 0) return;
    svg += "<rect x=\"0\" y=\"" + number(y) + "\" width=\"" + number(std::max(2.0, x(bytes))) + "\" height=\"" +
           number(height) + "\" rx=\"2\" fill=\"var(--" + colour + ")\"/>";
  };
  if (stage.allowed > stage.projected) bar(stage.allowed, 2, 12, "allowed");
  bar(stage.projected, 2, 12, "projected");
  bar(stage.peak, 5, 6, "measured");
  const int dot = stage.peaks.size() <= 100 ? 5 : 2;  // many make a curve
  for (std::size_t k = 0; k < stage.peaks.size(); ++k) {
    const double share =
        stage.peaks.size() > 1 ? static_cast<double>(k) / static_cast<double>(stage.peaks.size() - 1) : 0.5;
    svg += "<rect x=\"" + number(std::max(0.0, x(stage.peaks[k]) - dot / 2)) + "\" y=\"" + number(17 + 12 * share) +
           "\" width=\"" + std::to_string(dot) + "\" height=\"" + std::to_string(dot) +
           "\" rx=\"1\" fill=\"var(--measured)\" opacity=\".55\"/>";
  }
  svg += "</svg>";
  std::string steps;
  for (const std::string& step : stage.steps) steps += (steps.empty() ? "" : " + ") + step;
  if (steps == stage.name) steps.clear();
  return "<div class=\"stage\"><div><b>" + escaped(stage.name) + "</b><br><span class=\"soft\">" +
         escaped(stage.function) + (steps.empty() ? "" : "<br>" + escaped(steps)) + "</span></div>" + svg +
         "<div class=\"n\">" + (stage.peak > 0 ? escaped(format_size(stage.peak)) + " measured" : "not yet measured") +
         "<br><span class=\"soft\">" + escaped(format_size(stage.projected)) + " projected</span></div></div>\n";
}

std::string memory_section(const RunRecord& record) {
  std::uint64_t largest = 1;
  for (const RecordedStage& stage : record.stages)
    largest = std::max({largest, stage.projected, stage.allowed, stage.peak});
  std::string html =
      "<h2>Memory of one task</h2>\n<div class=\"card\"><p class=\"key soft\" style=\"margin-top:0\">"
      "<i style=\"background:var(--projected)\"></i>projected<i style=\"background:var(--allowed)\"></i>allowed after "
      "growing"
      "<i style=\"background:var(--measured)\"></i>measured: largest, and below it block by block</p>\n";
  for (const RecordedStage& stage : record.stages) html += stage_bars(stage, static_cast<double>(largest));
  return html + "</div>\n";
}

std::string stage_section(const RunRecord& record) {
  std::vector<std::vector<std::string>> rows;
  const auto some = [](std::int64_t count) { return count > 0 ? std::to_string(count) : std::string("–"); };
  for (const RecordedStage& stage : record.stages)
    rows.push_back({stage.name, stage.confidence, std::to_string(stage.done) + " / " + std::to_string(stage.tasks),
                    some(stage.retried), some(stage.grown), format_size(stage.projected),
                    stage.allowed > 0 ? format_size(stage.allowed) : "–",
                    stage.peak > 0 ? format_size(stage.peak) : "–", std::to_string(stage.concurrency),
                    format_size(stage.bytes_read), format_size(stage.bytes_written),
                    stage.seconds > 0 ? format_seconds(stage.seconds) : "–",
                    stage.seconds_lost > 0 ? format_seconds(stage.seconds_lost) : "–"});
  return "<h2>Stages</h2>\n" + table({"stage", "confidence", "tasks", "retried", "grown", "projected", "allowed",
                                      "measured", "at once", "reads", "writes", "time", "lost"},
                                     rows,
                                     {false, false, true, true, true, true, true, true, true, true, true, true, true});
}

std::string trouble_sections(const RunRecord& record) {
  std::string html;
  if (!record.parked.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const JournalParked& row : record.parked) rows.push_back({row.stage, std::to_string(row.block), row.why});
    html += "<h2>Parked blocks</h2>\n" + table({"stage", "block", "why"}, rows, {false, true, false});
  }
  if (!record.failures.empty()) {
    constexpr std::size_t kMost = 200;
    std::vector<std::vector<std::string>> rows;
    for (const JournalFailure& row : record.failures) {
      if (rows.size() == kMost) break;
      rows.push_back({row.stage, std::to_string(row.block), std::to_string(row.attempt), row.outcome, row.evidence,
                      format_size(row.allowed), row.needed > 0 ? format_size(row.needed) : "–",
                      row.peak > 0 ? format_size(row.peak) : "–", format_seconds(row.seconds), row.message});
    }
    html += "<h2>Attempts that failed</h2>\n" +
            table({"stage", "block", "attempt", "outcome", "evidence", "allowed", "needed", "peak", "time", "message"},
                  rows, {false, true, true, false, false, true, true, true, true, false});
    if (record.failures.size() > kMost)
      html += "<p class=\"soft\">and " + std::to_string(record.failures.size() - kMost) + " more</p>\n";
  }
  if (!record.answers.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const JournalAnswer& row : record.answers)
      rows.push_back({row.stage, std::to_string(row.block), row.choice + (row.always ? ", always" : ""),
                      row.bytes > 0 ? format_size(row.bytes) : "–"});
    html +=
        "<h2>Answers given</h2>\n" + table({"stage", "block", "answer", "memory"}, rows, {false, true, false, true});
  }
  return html;
}

std::string history_sections(const RunRecord& record) {
  std::vector<std::vector<std::string>> rows;
  for (const ArrayRecord& array : record.arrays)
    if (array.role != "pieces") rows.push_back({array.name, array.role, array.shape, array.dtype, array.location});
  std::string html = "<h2>Arrays</h2>\n" +
                     table({"array", "role", "shape", "type", "where"}, rows, {false, false, false, false, false});
  rows.clear();
  for (const JournalRun& run : record.runs)
    rows.push_back({date(run.started),
                    run.status.empty() ? (&run == &record.runs.back() ? record.status() : "killed") : run.status,
                    run.wall_seconds > 0 ? format_seconds(run.wall_seconds) : "–",
                    run.peak_rss_bytes > 0 ? format_size(run.peak_rss_bytes) : "–"});
  return html + "<h2>Runs in this directory</h2>\n" +
         table({"started", "ended as", "time", "memory at most"}, rows, {false, false, true, true});
}

}  // namespace

std::string html_report(const RunRecord& record) {
  const std::string status = record.status();
  std::uint64_t peak = 0;
  double wall = 0;
  for (const JournalRun& run : record.runs) peak = std::max(peak, run.peak_rss_bytes), wall += run.wall_seconds;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>" +
      escaped(record.run_dir) + " – Cuboid</title>\n<style>" + kStyle + "</style></head>\n<body><main>\n<h1>" +
      escaped(record.run_dir) + "</h1>\n<div class=\"soft\">Report of a Cuboid run" +
      (record.runs.empty() ? "" : ", begun " + date(record.runs.front().started)) + "</div>\n<div class=\"tiles\">\n";
  html += tile(status, "status", status == "done" ? "good" : status == "running" ? "" : "bad");
  html += tile(std::to_string(record.tasks_done()) + " / " + std::to_string(record.tasks), "tasks done");
  html += tile(peak > 0 ? format_size(peak) : "–", "memory of all processes, at most");
  html += tile(format_size(record.budget), "budget");
  html += tile(std::to_string(record.workers), "tasks at once, at most");
  html += tile(wall > 0 ? format_seconds(wall) : "–", "time, all runs");
  html +=
      "</div>\n" + memory_section(record) + stage_section(record) + trouble_sections(record) + history_sections(record);
  return html + "</main></body></html>\n";
}

}  // namespace cuboid
