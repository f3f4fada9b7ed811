#include "storage/printable.h"

#include <gtest/gtest.h>

namespace cuboid {
namespace {

TEST(Printable, WhatStrangersWriteIsMadeFitForMessages) {
  EXPECT_EQ(printable("a\nb\x7f", 10), "a b?");
  EXPECT_EQ(printable("a\x1b[2Jb"), "a?[2Jb");                 // no terminal moves its cursor
  EXPECT_EQ(printable("\xc3\xa9\xff\xc3", 10), "\xc3\xa9??");  // invalid bytes
  EXPECT_EQ(printable("a\xc3\xa9", 2), "a");                   // never half a character
  EXPECT_EQ(printable("\xed\xa0\x80\xc0\x80", 10), "?????");   // a surrogate, an overlong NUL
  EXPECT_EQ(in_quotes("text"), "\"text\"");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), "\"" + std::string(60, 'x') + "...\"");
}

}  // namespace
}  // namespace cuboid
