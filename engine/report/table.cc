#include "engine/report/table.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace cuboid {

TextStyle style_for(int descriptor) {
  const char* forbidden = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool allowed = (!forbidden || !*forbidden) && terminal && *terminal && std::string_view(terminal) != "dumb";
  return {allowed && ::isatty(descriptor) == 1};
}

std::string paint(const TextStyle& style, Ink ink, std::string_view text) {
  if (!style.colour || ink == Ink::plain || text.empty()) return std::string(text);
  const char* code = "";
  switch (ink) {
    case Ink::plain:
      break;
    case Ink::bold:
      code = "1";
      break;
    case Ink::dim:
      code = "2";
      break;
    case Ink::red:
      code = "31";
      break;
    case Ink::green:
      code = "32";
      break;
    case Ink::yellow:
      code = "33";
      break;
    case Ink::cyan:
      code = "36";
      break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string to_text(const Table& table, const TextStyle& style) {
  std::vector<std::size_t> widths;
  for (const auto& column : table.columns) widths.push_back(display_width(column.title));
  for (const auto& row : table.rows)
    for (std::size_t k = 0; k < row.size(); ++k) widths[k] = std::max(widths[k], display_width(row[k].text));

  std::string text;
  const auto add_line = [&](const auto& cell_at, std::size_t count) {
    std::string line;
    std::size_t owed = 0;  // blanks to write before the next text: none at the end of a line
    for (std::size_t k = 0; k < count; ++k) {
      const Table::Cell cell = cell_at(k);
      const std::size_t pad = widths[k] - display_width(cell.text);
      if (k > 0) owed += 2;
      if (table.columns[k].right) owed += pad;
      if (!cell.text.empty()) {
        line.append(owed, ' ');
        owed = 0;
        line += paint(style, cell.ink, cell.text);
      }
      owed += table.columns[k].right ? 0 : pad;
    }
    text += line + "\n";
  };
  add_line([&](std::size_t k) { return Table::Cell(table.columns[k].title, Ink::bold); }, table.columns.size());
  for (const auto& row : table.rows) add_line([&](std::size_t k) { return row[k]; }, row.size());
  return text;
}

std::string format_seconds(double seconds) {
  char text[64];
  if (!(seconds >= 0)) return "?";
  if (seconds < 0.0995) {
    std::snprintf(text, sizeof text, "%.0f ms", seconds * 1000);
  } else if (seconds < 59.95) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else if (seconds < 3599.5) {
    const long whole = std::lround(seconds);
    std::snprintf(text, sizeof text, "%ld min %02ld s", whole / 60, whole % 60);
  } else {
    const long minutes = std::lround(seconds / 60);
    std::snprintf(text, sizeof text, "%ld h %02ld min", minutes / 60, minutes % 60);
  }
  return text;
}

std::string count_of(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace cuboid
