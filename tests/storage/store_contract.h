// What every Store promises (storage/store.h), as a suite. A new store takes part by one INSTANTIATE_TEST_SUITE_P.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "storage/store.h"

namespace cuboid {

struct StoreFactory {
  std::string name;
  // A new, empty store; `folder` is an empty directory of this test alone.
  std::function<std::shared_ptr<Store>(const std::string& folder)> make;
};

class StoreContract : public testing::TestWithParam<StoreFactory> {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string folder_;
  std::shared_ptr<Store> store_;
};

inline std::string store_factory_name(const testing::TestParamInfo<StoreFactory>& info) { return info.param.name; }

}  // namespace cuboid
