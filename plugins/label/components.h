// label.components: connected components of the non-zero pixels of an image, in three steps of bounded memory. Each block
// is labelled by itself; what its pixels at borders to other blocks were labelled goes into a list; labels that meet
// there are united in one pass over the list; the blocks are relabelled.
//
// A label is 1 + the index, in C order of the whole image, of the first pixel of its component: so blocks need not agree
// on a numbering, and the smallest of several labels of one component is the component's.
// Method: Rosenfeld and Pfaltz, Sequential operations in digital picture processing, JACM 13 (1966), with union-find.
#pragma once
#include <algorithm>
#include <cuboid/plugin.hpp>

namespace label {

// All three are functions of their arrays alone, and take no memory but the host's.
constexpr cuboid::decl step(const char* id, const char* signature, const char* doc) {
  return cuboid::decl(id, signature, doc)
      .outside_bytes("0", cuboid::sdk::exact)
      .flags(cuboid::sdk::pure | cuboid::sdk::reentrant | cuboid::sdk::fork_safe);
}

inline constexpr auto connectivity = cuboid::sdk::integer("connectivity", 1)
                                         .min(1)
                                         .max(2)
                                         .help("1: pixels touch along edges (4 neighbours); 2: at corners too (8).");

struct Blocks {
  static constexpr auto meta =
      step("label.blocks/1", "image:T[y,x] -> labels:i8[y,x], border:i8[<=2*(y+x), 3]",
           "Connected components of the non-zero pixels within each block, labelled by 1 + the index of the "
           "first pixel in the whole image, background 0; and the pixels at borders to other blocks: rows y, "
           "x, label. The first step of label.components.")
          .types("T=b1|i1|i2|i4|i8|u1|u2|u4|u8|f4|f8")
          .param(connectivity)
          .call_bytes("0", cuboid::sdk::exact)
          .example(R"({"in":[{"dtype":"u1","shape":[3,4],"data":[1,0,1,1, 1,0,0,1, 0,1,0,0]}],)"
                   R"("out":[{"dtype":"i8","shape":[3,4],"data":[1,0,3,3, 1,0,0,3, 0,10,0,0]},)"
                   R"({"dtype":"i8","shape":[0,3],"data":[]}]})");

  using Labels = cuboid::sdk::View<std::int64_t, 2>;

  template <class T>
  static void run(cuboid::sdk::Call& call) {
    const auto image = call.in<T, 2>(0);
    const auto labels = call.out<std::int64_t, 2>(0);
    const bool corners = call.integer("connectivity") == 2;
    // A pixel points to an earlier one of its component, by 1 + its index in the block; a first pixel to itself.
    for (std::int64_t y = 0; y < image.extent(0); ++y) {
      call.poll();
      for (std::int64_t x = 0; x < image.extent(1); ++x) {
        labels(y, x) = image(y, x) != T() ? 1 + y * image.extent(1) + x : 0;
        if (labels(y, x) == 0) continue;
        if (x > 0) unite(labels, y, x, y, x - 1);
        if (y == 0) continue;
        unite(labels, y, x, y - 1, x);
        if (corners && x > 0) unite(labels, y, x, y - 1, x - 1);
        if (corners && x + 1 < image.extent(1)) unite(labels, y, x, y - 1, x + 1);
      }
    }
    // Earlier pixels are settled first, so one step leads to the first pixel.
    for (std::int64_t y = 0; y < image.extent(0); ++y)
      for (std::int64_t x = 0; x < image.extent(1); ++x)
        if (labels(y, x) != 0) labels(y, x) = at(labels, labels(y, x));
    for (std::int64_t y = 0; y < image.extent(0); ++y)
      for (std::int64_t x = 0; x < image.extent(1); ++x) {
        if (labels(y, x) == 0) continue;
        const std::int64_t first = labels(y, x) - 1;
        labels(y, x) = 1 + (image.origin(0) + first / image.extent(1)) * image.whole(1) + image.origin(1) +
                       first % image.extent(1);
      }
    list_border(call, image.raw(), labels);
  }

 private:
  static std::int64_t& at(const Labels& labels, std::int64_t label) {
    return labels((label - 1) / labels.extent(1), (label - 1) % labels.extent(1));
  }
  // The first pixel that a label leads to; on the way every second pointer is shortened.
  static std::int64_t first(const Labels& labels, std::int64_t label) {
    while (at(labels, label) != label) {
      at(labels, label) = at(labels, at(labels, label));
      label = at(labels, label);
    }
    return label;
  }
  static void unite(const Labels& labels, std::int64_t y, std::int64_t x, std::int64_t other_y, std::int64_t other_x) {
    if (labels(other_y, other_x) == 0) return;
    const std::int64_t a = first(labels, labels(y, x)), b = first(labels, labels(other_y, other_x));
    at(labels, std::max(a, b)) = std::min(a, b);
  }
  static void list_border(cuboid::sdk::Call& call, const cuboid_view& image, const Labels& labels) {
    auto border = call.rows<std::int64_t>(1);
    const std::int64_t h = labels.extent(0), w = labels.extent(1);
    for (std::int64_t y = 0; y < h; ++y) {
      const bool edge = (y == 0 && image.origin[0] > 0) || (y == h - 1 && image.origin[0] + h < image.whole[0]);
      for (std::int64_t x = 0; x < w; x += edge || x == w - 1 ? 1 : w - 1) {
        const bool side = (x == 0 && image.origin[1] > 0) || (x == w - 1 && image.origin[1] + w < image.whole[1]);
        if ((edge || side) && labels(y, x) != 0) border.add({image.origin[0] + y, image.origin[1] + x, labels(y, x)});
      }
    }
    border.finish();
  }
};

struct Unite {
  static constexpr auto meta =
      step("label.unite/1", "border:i8[n, 3] -> table:i8[<=n, 2]",
           "Which labels of blocks are those of one component: rows label, component's label, in the order "
           "of the former, where they differ. `border`: rows y, x, label. The second step of label.components.")
          .param(connectivity)
          .all()
          .call_bytes("3*8*n + 3*64", cuboid::sdk::bound)
          .output("table", cuboid::sdk::Delivery::trim, "ceil(n/4)")
          .example(R"({"in":[{"dtype":"i8","shape":[4,3],"data":[0,1,2, 0,2,3, 5,1,17, 4,3,9]}],)"
                   R"("out":[{"dtype":"i8","shape":[1,2],"data":[3,2]}]})");

  static void run(cuboid::sdk::Call& call) {
    const auto border = call.in<std::int64_t, 2>(0);
    const std::int64_t n = border.extent(0);
    const auto order = call.scratch<std::int64_t>(n);  // of the pixels, by place
    const auto labels = call.scratch<std::int64_t>(n);
    const auto parent = call.scratch<std::int64_t>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      order[std::size_t(i)] = i;
      labels[std::size_t(i)] = border(i, 2);
    }
    const auto before = [&](std::int64_t i, std::int64_t y, std::int64_t x) {
      return border(i, 0) < y || (border(i, 0) == y && border(i, 1) < x);
    };
    std::sort(order.begin(), order.end(),
              [&](std::int64_t i, std::int64_t j) { return before(i, border(j, 0), border(j, 1)); });
    std::sort(labels.begin(), labels.end());
    std::int64_t* const last = std::unique(labels.begin(), labels.end());
    for (std::int64_t* at = labels.begin(); at != last; ++at)
      parent[std::size_t(at - labels.begin())] = at - labels.begin();
    const auto root = [&](std::int64_t label) {
      std::int64_t i = std::lower_bound(labels.begin(), last, label) - labels.begin();
      while (parent[std::size_t(i)] != i) i = parent[std::size_t(i)] = parent[std::size_t(parent[std::size_t(i)])];
      return i;
    };
    const auto unite_with = [&](std::int64_t i, std::int64_t y, std::int64_t x) {
      const std::int64_t* found =
          std::lower_bound(order.begin(), order.end(), 0, [&](std::int64_t j, int) { return before(j, y, x); });
      if (found == order.end() || border(*found, 0) != y || border(*found, 1) != x) return;
      const std::int64_t a = root(border(i, 2)), b = root(border(*found, 2));
      parent[std::size_t(std::max(a, b))] = std::min(a, b);
    };
    const bool corners = call.integer("connectivity") == 2;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % 4096 == 0) call.poll();
      const std::int64_t y = border(i, 0), x = border(i, 1);
      unite_with(i, y, x + 1);
      unite_with(i, y + 1, x);
      if (corners) unite_with(i, y + 1, x - 1), unite_with(i, y + 1, x + 1);
    }
    auto table = call.rows<std::int64_t>(0);
    for (const std::int64_t* at = labels.begin(); at != last; ++at) {
      const std::int64_t component = labels[std::size_t(root(*at))];
      if (component != *at) table.add({*at, component});
    }
    table.finish();
  }
};

struct Relabel {
  static constexpr auto meta =
      step("label.relabel/1", "blocks:i8[y,x], table:i8[k, 2] -> labels:i8[y,x]",
           "Labels replaced as the table says (rows label, new label, in the order of the former); others "
           "stay. The last step of label.components.")
          .call_bytes("0", cuboid::sdk::exact)
          .splittable("y, x")
          .example(R"({"in":[{"dtype":"i8","shape":[1,4],"data":[3,0,2,7]},{"dtype":"i8","shape":[1,2],"data":[3,2]}],)"
                   R"("out":[{"dtype":"i8","shape":[1,4],"data":[2,0,2,7]}]})");

  static void run(cuboid::sdk::Call& call) {
    const auto blocks = call.in<std::int64_t, 2>(0), table = call.in<std::int64_t, 2>(1);
    const auto labels = call.out<std::int64_t, 2>(0);
    std::int64_t known = 0, replaced = 0;  // runs of one label are looked up once
    for (std::int64_t y = 0; y < blocks.extent(0); ++y) {
      call.poll();
      for (std::int64_t x = 0; x < blocks.extent(1); ++x) {
        if (blocks(y, x) != known) known = blocks(y, x), replaced = look_up(table, known);
        labels(y, x) = replaced;
      }
    }
  }

 private:
  static std::int64_t look_up(const cuboid::sdk::View<const std::int64_t, 2>& table, std::int64_t label) {
    if (label == 0) return 0;  // background stays, whatever the table says
    std::int64_t low = 0, high = table.extent(0);
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (table(middle, 0) < label)
        low = middle + 1;
      else
        high = middle;
    }
    return low < table.extent(0) && table(low, 0) == label ? table(low, 1) : label;
  }
};

struct Components {
  static constexpr const char* recipe =
      R"({"id":"label.components/1","doc":"Connected components of the non-zero pixels, as scipy.ndimage.label finds )"
      R"(them, of an image of any size: a label is 1 + the index of the component's first pixel in C order, background 0.",)"
      R"("signature":"image:T[y,x] -> labels:i8[y,x]","steps":[)"
      R"({"name":"blocks","call":"label.blocks/1","args":["image"],"params":["connectivity"]},)"
      R"({"name":"table","call":"label.unite/1","args":["blocks.border"],"params":["connectivity"]},)"
      R"({"name":"labels","call":"label.relabel/1","args":["blocks.labels","table"]}]})";
};

}  // namespace label
