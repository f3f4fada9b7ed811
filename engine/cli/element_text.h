// Elements as text: what `array cat` prints and what metadata shows.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "storage/types.h"

namespace cuboid {

// The element type's Zarr v3 name, without what configures it.
inline std::string type_name(DType dtype) {
  const std::string text = to_string(dtype);
  return text.substr(0, text.find('['));
}

enum class ElementForm : std::uint8_t { json, plain };

// Appends one element. JSON: floats that JSON lacks as "NaN", "Infinity", "-Infinity"; complex as [re, im]; integers
// exact; floats by the fewest digits that read back the same; bytes in base64, strings as strings, times as counts of
// their unit or "NaT", structures as lists. Plain: nan, inf, 1+2j, true, 2026-11-29T10:15:00, b"ab\x00".
void append_element(std::string& text, DType dtype, const std::byte* element, ElementForm form);

// The same of an element of any length: text, or bytes.
void append_string(std::string& text, std::string_view element, bool is_text, ElementForm form);

// Calls `each` on every element of a view in C order.
void for_each_element(const ConstView& view, const std::function<void(const std::byte*)>& each);

// The dtype as NumPy's files spell it, a Python literal: "'<f8'", "[('x', '<f4'), ]".
std::string npy_descriptor(DType dtype);
// The bytes before the elements of a .npy file, in C order.
std::string npy_header(DType dtype, const Shape& shape);

}  // namespace cuboid
