// Aligned tables and colours for people: the one place that prints either.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cuboid {

// Whether text may carry colours. Plain data, so that output is testable.
struct TextStyle {
  bool colour = false;
};
// Colours only where `descriptor` is a terminal that has them and NO_COLOR is unset or empty.
TextStyle style_for(int descriptor);

enum class Ink : std::uint8_t { plain, bold, dim, red, green, yellow, cyan };
std::string paint(const TextStyle& style, Ink ink, std::string_view text);

struct Table {
  struct Column {
    std::string title;
    bool right = false;  // numbers are aligned right
  };
  struct Cell {
    std::string text;  // no line breaks
    Ink ink = Ink::plain;
    Cell() = default;
    Cell(std::string content, Ink colour = Ink::plain) : text(std::move(content)), ink(colour) {}
    Cell(const char* content) : text(content) {}
  };
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // may be shorter than `columns`
};
// A line of titles, then a line a row, columns two spaces apart; no trailing blanks.
std::string to_text(const Table& table, const TextStyle& style);

// Columns that a terminal shows for UTF-8 text (a character counts one).
std::size_t display_width(std::string_view text);

// "1.8 s", "4 min 03 s", "2 h 05 min", "12 ms"
std::string format_seconds(double seconds);
// "1 task", "12 tasks"
std::string count_of(std::int64_t count, const std::string& noun);

}  // namespace cuboid
